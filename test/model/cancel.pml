/* Cancellation against publishing and parking, against a rendezvous, against a shield, against task
 * exit.
 *
 * Task 0 sends one value, task 1 receives it, and each is cancelled once, at any time. A task:
 *   1. RENDEZVOUS  meets its peer, or is cancelled
 *   2. NEVER       having met, waits for what never comes: only the cancel can end this
 *   3. CLEANUP     cancelled, waits under a shield for an event that does come
 *   4. AFTER       no longer shielded, waits for what never comes, and is cancelled again
 * Only one task cleans up, to keep the search small: -DCLEANER=0 or 1.
 *
 * Proven, for every interleaving:
 *   - a cancel is always noticed: NEVER and AFTER always end  (no invalid end state, bounded waits)
 *   - it is noticed at the current or the next suspension: a wait opened after the flag was set
 *     is cancelled, whatever else was ready
 *   - with -DSTALE_LOOK, the first even if no look at the flag ever sees that it is set: the mark
 *     is enough
 *   - two-sided atomicity: the sender returns "sent" exactly if the receiver returns the value;
 *     otherwise the value is still the sender's. Nothing is received and then dropped
 *   - a shielded wait is never cut short; a claim or commit meant for one wait never ends a later
 *   - whoever is cancelled finds the flag set
 *   - the canceller never touches a task that has exited
 *
 * What this needs, each with a twin that breaks without it:
 *   - The canceller sets the flag, looks whether the task obeys it, and cancels, all under the
 *     scope's lock. The task changes what it obeys, and takes away the mark or puts it back, under
 *     the same lock; and exit unlinks the task under it. A task whose wait is over cannot exit
 *     before the commit, so the commit may follow after unlocking: the rule of objects, applied to
 *     scopes.
 *
 * Abstracted: the flag is per task (a scope of one child; a tree of scopes sets many flags).
 * A critical section that touches only what its lock protects is one step.
 */
#define TASKS 2
#define MATCHED   1     /* values of winner[] */
#define FIRED     2
#define CANCELLED 3
#include "word.pml"

#define RENDEZVOUS 0
#define NEVER      1
#define CLEANUP    2
#define AFTER      3
#define EXIT       4

#define PEER (1 - me)
#ifndef MAX_OPENINGS
#define MAX_OPENINGS 5
#endif
#ifndef CLEANER
#define CLEANER 1
#endif

bool cancelled[TASKS];         /* the scope's flag: set once, never cleared */
bool obeys[TASKS] = true;      /* else it is under a shield */
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

mtype = { WAITING, WON, RETRY };

inline move() { d_step { assert(!moved); moved = true } }

/* Before it is published, or when it can be reached by this channel only, whose lock we have, the
 * waiter's own claim cannot fail. */
inline claim_own() { claim(me, ok); assert(ok) }

/* Claim yourself first, then the peer; a peer that is claimed already is passed over. */
inline arm_rendezvous() {
  lock(channel_locked);
  if
  :: linked[PEER] && !CLOSED_TO_CLAIMS(PEER) ->
#ifdef BROKEN_MOVE_BEFORE_CLAIM
     move();
#endif
     claim_own();
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
  :: else -> linked[me] = true
  fi;
  unlock(channel_locked);
  if
  :: state == WON -> commit(PEER, prev)
  :: else
  fi
}

inline arm_event() {
  lock(event_locked);
  if
  :: event_ready -> claim_own(); event_ready = false; winner[me] = FIRED; state = WON
  :: else -> event_linked = true
  fi;
  unlock(event_locked)
}

inline disarm() {
  if
  :: step == RENDEZVOUS -> d_step { !channel_locked -> linked[me] = false }
  :: step == CLEANUP -> d_step { !event_locked -> event_linked = false }
  :: step == NEVER || step == AFTER
  fi
}

inline see_flag() {
#if defined(STALE_LOOK)
  look = false
#elif defined(BROKEN_NO_LOOK)
  look = false
#else
  look = cancelled[me] && obeys[me]
#endif
}

/* Into a shield and out of it. The flag is set, so the mark is there, or has still to be put. */
inline obey(yes) {
#ifndef BROKEN_SHIELD_WITHOUT_LOCK
  lock(scope_locked[me]);
#endif
  d_step {
#ifndef BROKEN_MARK_STAYS
    word[me] = word[me] & ~MARK;
#endif
#ifndef BROKEN_MARK_NOT_PUT_BACK
    if
    :: yes && cancelled[me] -> word[me] = word[me] | MARK
    :: else
    fi;
#endif
    obeys[me] = yes
  };
#ifndef BROKEN_SHIELD_WITHOUT_LOCK
  unlock(scope_locked[me])
#endif
}

proctype Task(byte me) {
  mtype state;
  byte step = RENDEZVOUS;
  byte prev;
  bool ok, look, too_late;
  byte openings;

  do
  :: step == EXIT -> break
  :: else ->
     d_step {
       openings++;
       assert(openings <= MAX_OPENINGS);
       state = WAITING;
       winner[me] = NOBODY;
       too_late = cancelled[me] && obeys[me]  /* ghost: nothing but the cancel may win now */
     };
     open(me);
     see_flag();
     if
     :: look -> claim_own(); winner[me] = CANCELLED; state = WON; look = false
     :: else
     fi;
     if
     :: state == WAITING && step == RENDEZVOUS -> arm_rendezvous()
     :: state == WAITING && step == CLEANUP -> arm_event()
     :: else
     fi;
     if
     :: state == WON || state == RETRY
     :: else -> suspend(me, prev)
     fi;
     disarm();
     close(me);
     ok = false;
     assert(state == RETRY || winner[me] != NOBODY);
     assert(winner[me] != CANCELLED || cancelled[me]);
#ifndef STALE_LOOK
     assert(!too_late || winner[me] == CANCELLED);
#endif
#ifdef BROKEN_CHECK_AFTER_WIN
     if
     :: winner[me] == MATCHED && cancelled[me] -> winner[me] = CANCELLED
     :: else
     fi;
#endif
     if
     :: state == RETRY
#ifdef WITNESS_RETRY
        -> assert(false)
#endif
     :: state != RETRY && winner[me] == CANCELLED ->
        assert(step != CLEANUP);
        if
        :: step == AFTER -> step = EXIT
        :: step != AFTER && me == CLEANER -> obey(false); step = CLEANUP
        :: step != AFTER && me != CLEANER -> step = EXIT
        fi
     :: state != RETRY && winner[me] == MATCHED ->
        assert(step == RENDEZVOUS);
        returned[me] = true;
        step = NEVER
     :: state != RETRY && winner[me] == FIRED ->
        assert(step == CLEANUP);
        obey(true);
        step = AFTER
     fi
  od;
  assert(cancelled[me]);
  d_step { winner[me] = NOBODY; state = 0; too_late = false; openings = 0 };
  d_step { !scope_locked[me] -> child[me] = false };
  freed[me] = true
}

proctype Canceller(byte t) {
  bool ok;
  byte prev;

  if
  :: d_step { !scope_locked[t] && !child[t] -> skip }
  :: d_step { !scope_locked[t] && child[t] -> scope_locked[t] = true };
#ifndef BROKEN_FLAG_AFTER_CANCEL
     cancelled[t] = true;
#endif
#ifdef BROKEN_CANCEL_WITHOUT_SCOPE_LOCK
     unlock(scope_locked[t]);
#endif
     if
     :: obeys[t] -> assert(!freed[t]); cancel(t, ok)
     :: else
     fi;
#ifdef BROKEN_FLAG_AFTER_CANCEL
     if
     :: ok -> winner[t] = CANCELLED; commit(t, prev); ok = false
     :: else
     fi;
     cancelled[t] = true;
#endif
#ifndef BROKEN_CANCEL_WITHOUT_SCOPE_LOCK
     unlock(scope_locked[t]);
#endif
     if
     :: ok -> winner[t] = CANCELLED; assert(!freed[t]); commit(t, prev)
     :: else
     fi
  fi
}

/* Fires the event that the clean-up waits for, once, at any time. */
proctype Helper(byte t) {
  bool ok;
  byte prev;

  if
  :: d_step { !event_locked && !event_linked -> event_ready = true }
  :: d_step { !event_locked && event_linked -> event_locked = true; event_linked = false };
     claim(t, ok);
     assert(ok);
     winner[t] = FIRED;
     unlock(event_locked);
     commit(t, prev)
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
