/* Cancellation against opening a wait, against a rendezvous, against a shield, against task exit.
 *
 * Task 0 sends one value, task 1 receives it, and each is cancelled once, at any time. A task:
 *   1. RENDEZVOUS  meets its peer, or is cancelled
 *   2. NEVER       having met, waits for something that never comes: only the cancel can end this
 *   3. CLEANUP     cancelled, waits under a shield for an event that does come, then exits
 * Only one task cleans up, to keep the search small: -DCLEANER=0 or 1.
 *
 * Proven, for every interleaving:
 *   - a cancel is always noticed: NEVER always ends   (no invalid end state, bounded openings)
 *   - it is noticed at the current or the next suspension: a wait opened after the flag was set
 *     is cancelled, whatever else was ready
 *   - two-sided atomicity: the sender returns "sent" exactly if the receiver returns the value;
 *     otherwise the value is still the sender's. Nothing is received and then dropped
 *   - a shielded wait is never cut short; a claim or commit meant for one wait never ends a later
 *   - the canceller never touches a task that has exited
 *
 * Two rules beyond the word that this needs, each with a twin that breaks without it:
 *   - The flag is the truth, a claim by the canceller is a hint. Its claim may come late: the task
 *     saw the flag, unwound and is now inside a shielded wait. A shielded wait that finds itself
 *     won by CANCELLED disarms, opens again and goes on.
 *   - The canceller reaches the word under the scope's lock and claims there; exit unlinks the task
 *     under the same lock. A task whose word was claimed cannot exit before the commit, so the
 *     commit may follow after unlocking: the rule of objects, applied to scopes.
 *
 * The store that opens a word may lie in its processor's store buffer for a while, invisible to
 * others, until something drains that: a lock, a claim, a fence. Where a lock is taken to publish,
 * it serves as the fence, and the task looks at its flag after it. (A look before as well, so that
 * a task that has been cancelled is not matched.)
 *
 * Abstracted: the flag is per task (a scope of one child; a tree of scopes sets many flags).
 * A critical section that touches only what its lock protects is one step.
 */
#define TASKS 2
#include "word.pml"

#define RENDEZVOUS 0
#define NEVER      1
#define CLEANUP    2
#define EXIT       3

#define PEER (1 - me)
#ifndef MAX_OPENINGS
#define MAX_OPENINGS 4
#endif
#ifndef CLEANER
#define CLEANER 1
#endif

#define MATCHED   1     /* values of winner[] */
#define FIRED     2
#define CANCELLED 3

bool cancelled[TASKS];         /* the scope's flag: set once, never cleared */
bool buffered[TASKS];          /* the word is open, but nobody else knows yet */
bool scope_locked[TASKS];
bool child[TASKS] = true;      /* the scope knows the task */
bool freed[TASKS];             /* ghost: the task's memory is gone */

bool channel_locked;
bool linked[TASKS];            /* arms on the channel */
bool moved;                    /* ghost: the value has left the sender */
bool returned[TASKS];          /* ghost: the rendezvous returned normally to the task's code */

bool event_locked;             /* what CLEANUP waits for */
bool event_linked;
bool event_ready;

mtype = { WAITING, WON, LOST, RETRY };

inline drain(t) {
  d_step {
    if
    :: buffered[t] -> buffered[t] = false; open(t)
    :: else
    fi
  }
}
inline publish_under(l) {
  d_step { !l -> l = true; if :: buffered[me] -> buffered[me] = false; open(me) :: else fi }
}

inline move() { d_step { assert(!moved); moved = true } }

/* Claim yourself first, then the peer; a peer that is claimed already is passed over. */
inline arm_rendezvous() {
  publish_under(channel_locked);
  if
  :: linked[PEER] && !(word[PEER] & CLAIMED) ->
#ifdef BROKEN_MOVE_BEFORE_CLAIM
     move();
#endif
#ifdef BROKEN_NO_SELF_CLAIM
     ok = true;
#else
     claim(me, ok);
#endif
     if
     :: ok ->
        claim(PEER, ok);
        if
        :: ok ->
#ifndef BROKEN_MOVE_BEFORE_CLAIM
           move();
#endif
           d_step {
             linked[PEER] = false;
             winner[PEER] = MATCHED;
             winner[me] = MATCHED;
             state = WON
           }
        :: else -> state = RETRY
        fi
     :: else -> state = LOST
     fi
  :: else -> linked[me] = true
  fi;
  unlock(channel_locked);
  if
  :: state == WON -> commit(PEER, prev)
  :: else
  fi
}

inline arm_event() {
  publish_under(event_locked);
  if
  :: event_ready ->
     claim(me, ok);
     if
     :: ok -> event_ready = false; winner[me] = FIRED; state = WON
     :: else -> state = LOST
     fi
  :: else -> event_linked = true
  fi;
  unlock(event_locked)
}

inline disarm() {
  if
  :: step == RENDEZVOUS -> d_step { !channel_locked -> linked[me] = false }
  :: step == CLEANUP -> d_step { !event_locked -> event_linked = false }
  :: step == NEVER
  fi
}

/* Look at the flag: the other half of "set the flag, then claim". If our own claim fails, the
 * canceller holds it and will commit: we must wait for that commit. */
inline see_flag() {
#ifdef BROKEN_NO_CHECK_ON_RETRY
  look = cancelled[me] && step != CLEANUP && !again
#else
  look = cancelled[me] && step != CLEANUP
#endif
}
inline heed_flag() {
  if
  :: look ->
     drain(me);
     claim(me, ok);
     if
     :: ok -> winner[me] = CANCELLED; state = WON
     :: else -> state = LOST
     fi
  :: else
  fi;
  look = false
}

/* Open, then look. Where no lock will be taken, with a fence in between. */
inline open_or_cancel() {
#ifdef BROKEN_CHECK_BEFORE_OPEN
  see_flag();
#endif
  if
  :: open(me)
  :: buffered[me] = true
  fi;
#ifndef BROKEN_NO_FENCE
  if
  :: step == NEVER -> drain(me)
  :: else
  fi;
#endif
#ifndef BROKEN_CHECK_BEFORE_OPEN
  see_flag();
#endif
  heed_flag()
}

proctype Task(byte me) {
  mtype state;
  byte step = RENDEZVOUS;
  byte prev;
  bool ok, look, too_late;
  byte openings;
#ifdef BROKEN_NO_CHECK_ON_RETRY
  bool again;
#endif

  do
  :: step == EXIT -> break
  :: else ->
     d_step {
       openings++;
       assert(openings <= MAX_OPENINGS);
       state = WAITING;
       winner[me] = NOBODY;
       too_late = cancelled[me] && step != CLEANUP  /* ghost: nothing but the cancel may win now */
     };
     open_or_cancel();
     if
     :: state == WAITING && step == RENDEZVOUS -> arm_rendezvous()
     :: state == WAITING && step == CLEANUP -> arm_event()
     :: else
     fi;
#ifndef BROKEN_NO_LOOK_AFTER_LOCK
     if
     :: state == WAITING && step != NEVER -> see_flag(); heed_flag()
     :: else
     fi;
#endif
     if
#ifdef BROKEN_IGNORE_LOST
     :: state == LOST -> winner[me] = CANCELLED
#endif
     :: state == WON || state == RETRY
     :: else -> drain(me); suspend(me, prev)
     fi;
     close(me);
     disarm();
     ok = false;
     assert(state == RETRY || winner[me] != NOBODY);
     assert(!too_late || winner[me] == CANCELLED);
#ifdef BROKEN_CHECK_AFTER_WIN
     if
     :: winner[me] == MATCHED && cancelled[me] -> winner[me] = CANCELLED
     :: else
     fi;
#endif
#ifdef BROKEN_NO_CHECK_ON_RETRY
     again = (state == RETRY);
#endif
     if
     :: state == RETRY
#ifdef WITNESS_RETRY
        -> assert(false)
#endif
     :: state != RETRY && winner[me] == CANCELLED ->
        if
        :: step != CLEANUP && me == CLEANER -> step = CLEANUP
        :: step != CLEANUP && me != CLEANER -> step = EXIT
        :: step == CLEANUP ->
#ifdef WITNESS_LATE_CLAIM
           assert(false)
#endif
#ifdef BROKEN_SHIELD_TRUSTS_CLAIM
           step = EXIT
#else
           skip                    /* shielded: open again */
#endif
        fi
     :: state != RETRY && winner[me] == MATCHED ->
        assert(step == RENDEZVOUS);
        returned[me] = true;
        step = NEVER
     :: state != RETRY && winner[me] == FIRED ->
        assert(step == CLEANUP);
        step = EXIT
     fi
  od;
  assert(cancelled[me] && (winner[me] == FIRED || me != CLEANER));
  d_step { winner[me] = NOBODY; state = 0; too_late = false; openings = 0 };
  d_step { !scope_locked[me] -> child[me] = false };
  freed[me] = true
}

proctype Canceller(byte t) {
  bool ok;
  byte prev;

#ifndef BROKEN_FLAG_AFTER_CLAIM
  cancelled[t] = true;
#endif
  if
  :: d_step { !scope_locked[t] && !child[t] -> skip }
  :: d_step { !scope_locked[t] && child[t] -> scope_locked[t] = true };
#ifdef BROKEN_CANCEL_WITHOUT_SCOPE_LOCK
     unlock(scope_locked[t]);
#endif
     assert(!freed[t]);
     claim(t, ok);
#ifndef BROKEN_CANCEL_WITHOUT_SCOPE_LOCK
     unlock(scope_locked[t]);
#endif
     if
     :: ok -> winner[t] = CANCELLED; assert(!freed[t]); commit(t, prev)
     :: else
     fi
  fi;
#ifdef BROKEN_FLAG_AFTER_CLAIM
  cancelled[t] = true
#endif
}

/* Fires the event that the clean-up waits for, once, at any time. */
proctype Helper(byte t) {
  bool ok;
  byte prev;

  if
  :: d_step { !event_locked && !event_linked -> event_ready = true }
  :: d_step { !event_locked && event_linked -> event_locked = true; event_linked = false };
     claim(t, ok);
     if
     :: ok -> winner[t] = FIRED
     :: else -> event_ready = true
     fi;
     unlock(event_locked);
     if
     :: ok -> commit(t, prev)
     :: else
     fi
  fi
}

init {
  atomic {
    run Task(0); run Task(1);
    run Canceller(0); run Canceller(1);
    run Helper(CLEANER)
  };
  _nr_pr == 1 -> assert(returned[0] == returned[1] && moved == returned[1])
}
