/* park_if and unpark: the low-level pair, as one object inside each task.
 *
 * The object is a lock, a token and the place for one arm. unpark hands the wake-up to a published
 * arm, or leaves a token; parking takes the token, or publishes the arm. Both hold the task's lock,
 * so it does not matter whether unpark finds its task running, parking or parked.
 *
 * Scenarios (-DSCENARIO=...):
 *   CONDITION  the task waits until count >= 1, then until count >= 2, in park_if: re-checked after
 *              every wake, so a token left over from an earlier unpark never reaches user code. Two
 *              others add one and unpark; one of them unparks twice.
 *   PERMIT     the token is all there is: park in a select, no condition, one unpark, one cancel,
 *              and a rival case that is ready once. Each of the three ends one wait; those after
 *              the cancel are shielded, and its mark is gone.
 *
 * Proven, for every interleaving:
 *   - no lost wake-up: the task always ends            (no invalid end state, no cycle)
 *   - park_if returns only when the condition holds, or when cancelled
 *   - idempotent: unparks do not add up (one token), and never resume a task twice  (word.pml)
 *   - an unpark that meets a wait the cancel has claimed is kept, not dropped, and the reverse
 *   - no wake without a cause: at most one per unpark or cancel
 *
 * Abstracted: the condition is one counter, read without the task's lock. Whoever calls unpark must
 * keep the task's memory alive; that is the handle's business and not modelled.
 */
#define TASKS 1
#define UNPARKED  1     /* values of winner[] */
#define CANCELLED 2
#define RIVALED   4
#include "word.pml"

#define CONDITION 1
#define PERMIT    2
#ifndef SCENARIO
#define SCENARIO CONDITION
#endif

bool task_locked;
bool token;
bool linked;
bool rival_locked;
bool rival_linked;
bool rival_ready;
bool cancelled;
bool shielded;          /* the task obeys another scope */
byte count;
byte causes;            /* ghost: unparks and cancels begun */
byte wakes;             /* ghost: waits that ended */

mtype = { WAITING, WON, LOST };

/* One wait; the outcome is winner[0]. */
inline park() {
  d_step { state = WAITING; winner[0] = NOBODY };
  open(0);
  if
  :: cancelled && !shielded ->
     claim(0, ok);
     assert(ok);
     winner[0] = CANCELLED;
     state = WON
  :: else
  fi;
#if SCENARIO == PERMIT
  if
  :: state == WAITING ->
     lock(rival_locked);
     if
     :: rival_ready ->
        claim(0, ok);
        assert(ok);
        rival_ready = false;
        winner[0] = RIVALED;
        state = WON
     :: else -> rival_linked = true
     fi;
     unlock(rival_locked)
  :: else
  fi;
#endif
  if
  :: state == WAITING ->
#ifdef BROKEN_TOKEN_READ_WITHOUT_LOCK
     found = token;
     lock(task_locked);
#else
     lock(task_locked);
     found = token;
#endif
     if
     :: found ->
#ifdef BROKEN_TOKEN_BEFORE_CLAIM
        token = false;
#endif
        claim(0, ok);
#if SCENARIO == PERMIT
        if
        :: ok -> token = false; winner[0] = UNPARKED; state = WON
        :: else -> state = LOST
        fi
#else
        assert(ok);
        token = false;
        winner[0] = UNPARKED;
        state = WON
#endif
     :: else -> linked = true
     fi;
     unlock(task_locked);
     found = false
  :: else
  fi;
  if
  :: state == WON
  :: else -> suspend(0, prev)
  fi;
  lock(task_locked);
  linked = false;
  unlock(task_locked);
#if SCENARIO == PERMIT
  lock(rival_locked);
  rival_linked = false;
  unlock(rival_locked);
#endif
  close(0);
  ok = false;
  wakes++;
  assert(winner[0] != NOBODY && wakes <= causes)
}

inline unpark() {
  causes++;
  lock(task_locked);
  if
  :: linked ->
     linked = false;
     claim(0, ok);
     if
     :: ok -> winner[0] = UNPARKED
#ifdef BROKEN_DROP_ON_FAILED_CLAIM
     :: else
#else
     :: else -> token = true
#endif
     fi
  :: else ->
     ok = false;
#ifdef BROKEN_NO_TOKEN
     skip
#else
     token = true
#endif
  fi;
  unlock(task_locked);
  if
  :: ok -> commit(0, prev)
  :: else
  fi
}

#if SCENARIO == CONDITION

proctype Task() {
  mtype state;
  bool ok, found;
  byte prev, need;

  shielded = true;
  need = 1;
  do
  :: need > 2 -> break
  :: else ->
     do
     :: count >= need -> break
     :: else ->
#ifdef BROKEN_CLEAR_TOKEN_BEFORE_PARK
        token = false;
#endif
        park()
#ifdef BROKEN_NO_RECHECK
        ; break
#endif
     od;
     assert(count >= need);
     need++
  od
}

proctype Other(byte times) {
  bool ok;
  byte prev;

  count++;
  do
  :: times > 0 -> unpark(); times--
  :: else -> break
  od
}

init { atomic { run Task(); run Other(1); run Other(2) } }

#else

proctype Task() {
  mtype state;
  bool ok, found;
  byte prev, seen;

  do
  :: seen == (UNPARKED | CANCELLED | RIVALED) -> break
  :: else ->
     park();
     assert(!(seen & winner[0]));
     seen = seen | winner[0];
     d_step {
       if
       :: winner[0] == CANCELLED -> shielded = true; word[0] = word[0] & ~MARK
       :: else
       fi
     }
  od
}

proctype Rival() {
  bool ok;
  byte prev;

  causes++;
  lock(rival_locked);
  if
  :: rival_linked ->
     rival_linked = false;
     claim(0, ok);
     if
     :: ok -> winner[0] = RIVALED
     :: else -> rival_ready = true
     fi
  :: else -> rival_ready = true
  fi;
  unlock(rival_locked);
  if
  :: ok -> commit(0, prev)
  :: else
  fi
}

proctype Other() {
  bool ok;
  byte prev;

  unpark()
}

proctype Canceller() {
  bool ok;
  byte prev;

  causes++;
  d_step {                /* under the lock of the scope */
    cancelled = true;
    ok = (word[0] & (PARKED | CLAIMED)) == PARKED;
    word[0] = (ok -> OVER(word[0]) : word[0]) | MARK
  };
  if
  :: ok -> winner[0] = CANCELLED; commit(0, prev)
  :: else
  fi
}

init { atomic { run Task(); run Other(); run Canceller(); run Rival() } }

#endif
