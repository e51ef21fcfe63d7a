/* One waiter, two wakers, one canceller: the wait word and the life of an arm.
 *
 * The waiter suspends twice, each time on every object that still exists. Each waker fires its
 * object once: it hands the event to a published arm, or latches it. The canceller comes once, at
 * any time; a waiter that has been cancelled leaves the cancelled scope, and with it the mark.
 *
 * Proven, for every interleaving:
 *   - no lost wake-up: the waiter always ends          (no invalid end state, no cycle)
 *   - resumed exactly once, never before its context is saved        (word.pml)
 *   - at most one claimant per opening; the result is the claimant's, complete when seen
 *   - an event is taken once or stays latched: none is lost or doubled
 *   - after disarm nobody can reach the arm: no claim through an arm of an earlier opening
 *   - a woken waiter may destroy the object it was woken by
 *
 * Abstracted: a queue holds at most this waiter's arm; an object's latch is one event.
 */
#define TASKS 1
#define OBJECTS 2
#define ROUNDS 2
#define CANCELLED OBJECTS
#define ON_MARK(t) assert(owner == NOBODY); owner = CANCELLED
byte owner = 255;         /* ghost: who won the claim of this opening */
#include "word.pml"

bool locked[OBJECTS];
bool linked[OBJECTS];     /* the waiter's arm is in the object's queue */
bool ready[OBJECTS];      /* the event came while nobody could take it */
bool destroyed[OBJECTS];
byte armed_in[OBJECTS];   /* ghost: the round the arm belongs to */
byte round;               /* ghost: 1 and 2 */
byte taken;               /* ghost: events the waiter received */
byte cancels;             /* ghost: rounds that were cancelled */

inline acquire(o) { assert(!destroyed[o]); lock(locked[o]) }
inline release(o) { assert(!destroyed[o]); unlock(locked[o]) }

inline won_by(who) { d_step { assert(owner == NOBODY); owner = who } }

/* arm: publish, or find the event latched. Claim yourself before you take it. */
inline arm(o) {
  acquire(o);
  if
  :: ready[o] ->
#ifdef BROKEN_NO_SELF_CLAIM
     ok = true;
#else
     claim(0, ok);
#endif
     if
     :: ok -> won_by(o); winner[0] = o; ready[o] = false; state = WON
     :: else -> state = LOST
     fi
  :: else -> linked[o] = true; armed_in[o] = round
  fi;
  release(o)
}

/* disarm takes the lock even if the arm is unlinked already: a waker may have popped it and be
 * about to claim. Without the lock that claim would hit the next opening. */
inline disarm(o) {
#ifdef BROKEN_DISARM_WITHOUT_LOCK
  if
  :: linked[o] -> acquire(o); linked[o] = false; release(o)
  :: else
  fi
#else
  acquire(o);
  linked[o] = false;
  release(o)
#endif
}

mtype = { WAITING, WON, LOST };

proctype Waiter() {
  mtype state;
  bool ok;
  byte prev, o;

  do
  :: round == ROUNDS -> break
  :: else ->
     d_step { round++; owner = NOBODY; winner[0] = NOBODY; state = WAITING; o = 0 };
     open(0);
     do
     :: o < OBJECTS && state == WAITING && !destroyed[o] -> arm(o); o++
     :: o < OBJECTS && state == WAITING && destroyed[o] -> o++
     :: else -> break
     od;
     if
     :: state == WON
#ifdef BROKEN_IGNORE_LOST
     :: state == LOST
     :: state == WAITING -> suspend(0, prev)
#else
     :: else -> suspend(0, prev)
#endif
     fi;
     assert(winner[0] != NOBODY && winner[0] == owner);
     close(0);
#ifndef BROKEN_NO_DISARM
     o = 0;
     do
     :: o == OBJECTS -> break
     :: o < OBJECTS && (o == winner[0] || destroyed[o]) -> o++
     :: o < OBJECTS && o != winner[0] && !destroyed[o] -> disarm(o); o++
     od;
#endif
     if
     :: winner[0] < OBJECTS -> d_step { taken++; destroyed[winner[0]] = true }
     :: else -> cancels++; word[0] = word[0] & ~MARK
     fi
  od;
  assert(!linked[0] && !linked[1])
}

proctype Waker(byte me) {
  bool ok;
  byte prev, via;

  acquire(me);
  if
  :: linked[me] ->
     d_step { linked[me] = false; via = armed_in[me] };
     claim(0, ok);
     if
     :: ok ->
        assert(via == round);
        won_by(me);
#ifdef BROKEN_COMMIT_BEFORE_RESULT
        release(me);
        commit(0, prev);
        winner[0] = me
#else
        winner[0] = me;
#ifdef BROKEN_COMMIT_UNDER_LOCK
        commit(0, prev);
        release(me)
#else
        release(me);
        commit(0, prev)
#endif
#endif
     :: else -> ready[me] = true; release(me)
     fi
  :: else -> ready[me] = true; release(me)
  fi
}

proctype Canceller() {
  bool ok;
  byte prev;

  cancel(0, ok);
  if
  :: ok -> won_by(CANCELLED); winner[0] = CANCELLED; commit(0, prev)
  :: else
  fi
}

init {
  atomic { run Waiter(); run Waker(0); run Waker(1); run Canceller() };
  /* Everyone is done: each of the two events was received or is still latched. */
  _nr_pr == 1 -> assert(taken + ready[0] + ready[1] == OBJECTS && taken + cancels == ROUNDS);
  /* A cancel that ended no round is still to be found. */
  assert(cancels + (word[0] & MARK) / MARK == 1)
}
