/* A lock that may be taken by whoever comes and finds it free, although others wait
 * (sync/turnstile.hpp, `overtaking`).
 *
 * Each task takes the lock twice. A release tells the first in line, one at a time, that the lock
 * is free; when it comes somebody may have been faster. Then it stands in front of all others who
 * have not come in vain, and is handed the lock by a release. One task may be cancelled while it
 * waits.
 *
 * Proven, for every interleaving:
 *   - one at a time holds it
 *   - nobody waits for a lock that is free, unless somebody who was told is on its way: every task
 *     comes to its end                                             (no invalid end state, no cycle)
 *   - whoever has come in vain once and waits again is not overtaken any more
 *   - while somebody is on its way, at most MOST others are faster
 *
 * Abstracted: what happens under the spinlock is one step, and so is what is done without it, by a
 * change of its word; and the word of a Wait, which wait.pml is about. Between being claimed and
 * being woken anything may happen.
 */
#ifndef TASKS
#define TASKS 3
#endif
#define ROUNDS 2
#define MOST 1
#define NONE 255

bool locked;
bool told_one;           /* somebody who was told is on its way */
byte overtaken;          /* so many have been faster since */
byte line[TASKS];        /* the first `waiting` of these tasks wait */
byte waiting;
bool told[TASKS];        /* of the current wait, like the next three */
bool passed[TASKS];
bool claimed[TASKS];
bool woken[TASKS];
byte holder = NONE;      /* ghost */
bool in_front[TASKS];    /* ghost: it has come in vain, and waits again */
byte ended;              /* ghost */

inline take_lock() {     /* by `me` or for another */
  assert(!locked);
  locked = true
}

/* What a release without the spinlock sees of the others: the word says whether somebody waits, is
 * on its way, and whether the first in line has been told before. */
#ifdef BROKEN_QUICK_RELEASE
#define QUICK (waiting == 0 || told_one)
#else
#define QUICK (waiting == 0 || (told_one && !told[line[0]]))
#endif

#ifdef BROKEN_NO_LIMIT
#define MAY_PASS (!locked)
#else
#define MAY_PASS (!locked && (!told_one || told[me] || overtaken < MOST))
#endif

inline pass_by() {
  overtaken = overtaken + (told_one && !told[me]);
  assert(overtaken <= MOST);
  take_lock()
}

inline not_overtaken(who) {
  for (i : 0 .. TASKS - 1) {
    assert(i == who || !in_front[i])
  }
}

inline leave_line(who) {
  i = 0;
  do
  :: i < waiting && line[i] != who -> i++
  :: else -> break
  od;
  if
  :: i < waiting ->
     do
     :: i + 1 < waiting -> line[i] = line[i + 1]; i++
     :: else -> break
     od;
     waiting--;
     line[waiting] = 0
  :: else
  fi;
  i = 0
}

inline stand_in_line(who) {
#ifdef BROKEN_BACK_OF_THE_LINE
  i = waiting;
#else
  i = (told[who] -> 0 : waiting);
  do                       /* behind others who have come in vain */
  :: i < waiting && told[line[i]] -> i++
  :: else -> break
  od;
#endif
  j = waiting;
  do
  :: j > i -> line[j] = line[j - 1]; j--
  :: else -> break
  od;
  line[i] = who;
  waiting++;
  in_front[who] = told[who] && !claimed[who];
  i = 0;
  j = 0
}

/* Sets `wake` to who is to be woken once the spinlock is released. */
inline tell_first() {
  wake = NONE;
  do
  :: waiting == 0 || locked || (told_one && !told[line[0]]) -> break
  :: else ->
     j = line[0];
     leave_line(j);
     if
     :: claimed[j]
     :: else ->
        claimed[j] = true;
        wake = j;
#ifndef BROKEN_TOLD_AGAIN
        if
        :: told[j] -> take_lock(); passed[j] = true; in_front[j] = false
        :: else -> told_one = true; told[j] = true; overtaken = 0
        fi;
#else
        told_one = true;
        overtaken = 0;
        told[j] = true;
        in_front[j] = false;
#endif
        break
     fi
  od;
  j = 0
}

inline wake_up() {
  if
  :: wake != NONE -> woken[wake] = true; wake = NONE
  :: else
  fi
}

proctype Task(byte me) {
  byte round, i, j, wake = NONE;
  bool has, gone;

  do
  :: round == ROUNDS || gone -> break
  :: else ->
     d_step {
       has = MAY_PASS;
       if
       :: has -> pass_by(); not_overtaken(me)
       :: else
       fi
     }
     do
     :: has -> break
     :: !has ->
        d_step { claimed[me] = false; woken[me] = false };
        d_step {
          if
          :: MAY_PASS && !claimed[me] ->
             claimed[me] = true;
             pass_by();
             passed[me] = true;
             has = true
          :: !(MAY_PASS) -> stand_in_line(me)
          :: else
          fi
        }
        if
        :: has -> break
        :: else
        fi;
        woken[me];
        /* A cancelled one leaves; one that was told or handed the lock comes, cancelled or not. */
        d_step {
          gone = claimed[me] && !told[me] && !passed[me];
          if
          :: told[me] && waiting > 0 ->   /* cancelled after it came in vain? */
             for (i : 0 .. TASKS - 1) {
               if
               :: i < waiting && line[i] == me -> gone = true
               :: else
               fi
             }
             i = 0
          :: else
          fi
        }
        if
        :: gone ->
           d_step {
             leave_line(me);
             tell_first();
             assert(wake == NONE)         /* whoever could pass has been told already */
           };
           break
        :: else ->
           d_step {
             if
             :: passed[me] -> has = true
             :: else ->
#ifndef BROKEN_STAYS_TOLD
                told_one = false;
#endif
                has = !locked;
                if
                :: has -> take_lock(); not_overtaken(me)
                :: else
                fi
             fi
           }
        fi
     od;
     if
     :: has ->
        d_step { assert(holder == NONE); holder = me };
        d_step { holder = NONE; has = false; told[me] = false; passed[me] = false; round++ };
        d_step {
          locked = false;
          if
          :: QUICK
          :: else -> tell_first()
          fi
        };
        wake_up()
     :: else
     fi
  od;
  ended++
}

proctype Canceller() {
  bool won;
  d_step {
    won = !claimed[0];
    claimed[0] = true;
    in_front[0] = in_front[0] && !won
  }
  if
  :: won -> woken[0] = true
  :: else
  fi
}

init {
  byte t;
  atomic {
    claimed[0] = true;   /* not open yet */
    for (t : 0 .. TASKS - 1) {
      run Task(t)
    }
    run Canceller()
  }
  ended == TASKS;
  assert(!locked && waiting == 0)
}
