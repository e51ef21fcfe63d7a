/* Selects that meet in rendezvous channels: matching, retrying, disarming.
 *
 * Each task runs one select. An arm is a side of a channel: 2*c sends on channel c, 2*c+1 receives.
 * Nobody else is needed for a match, so both partners sit in selects: the hard case. One canceller
 * (CANCEL=victim) may cancel a task once, at any time.
 *
 * Scenarios (-DSCENARIO=...):
 *   PAIR  2 or more tasks, 2 channels, two arms each, declared in opposite order
 *   RING  3 tasks, 3 channels: task t sends on channel t and receives from its left neighbour's
 *   SAME  every task both sends and receives on one single channel: arms that tie in object order
 *   FULL  every task both sends and receives on both channels: four arms
 *
 * Proven, for every interleaving:
 *   - no livelock: there is no cycle at all, so retries are bounded even under an unfair scheduler
 *     (the broken twins are searched with weak fairness where they claim a livelock even then)
 *   - no missed match: at rest no two waiting tasks could still meet, and each waiting task is
 *     parked on an open word with all of its arms linked        (assert in Rest)
 *   - values are conserved: each is given by one sender to one receiver, and both know it
 *   - no arm is left linked when its task ends
 *
 * Abstracted: a queue is a set, and a scan takes its arms in any order. Peers found dead may be
 * unlinked or left to their owner, and a select that burned its wait may go on to the next peer or
 * retry at once: the model allows both, so an implementation is free to do either. Polling before
 * opening is left out (a poll is a match by a party that has no wait of its own).
 */
#define PAIR 1
#define RING 2
#define SAME 3
#define FULL 4

#ifndef SCENARIO
#define SCENARIO PAIR
#endif

#if SCENARIO == PAIR
#ifndef TASKS
#define TASKS 2
#endif
#define CHANNELS 2
#define ARMS 2
#ifdef BROKEN_DECLARATION_ORDER
#define CHANNEL(t, i) ((t % 2) ^ (i))
#else
#define CHANNEL(t, i) (i)
#endif
#define SIDE(t, i) (2 * CHANNEL(t, i) + ((t + CHANNEL(t, i)) % 2))

#elif SCENARIO == RING
#define TASKS 3
#define CHANNELS 3
#define ARMS 2
#ifdef BROKEN_DECLARATION_ORDER
#define SIDE(t, i) ((i) == 0 -> 2 * (t) : 2 * ((t + 2) % 3) + 1)
#else
#define SIDE(t, i) ((i) == ((t) == 0 -> 0 : 1) -> 2 * (t) : 2 * ((t + 2) % 3) + 1)
#endif

#elif SCENARIO == SAME
#ifndef TASKS
#define TASKS 2
#endif
#define CHANNELS 1
#define ARMS 2
#define SIDE(t, i) (i)

#elif SCENARIO == FULL
#ifndef TASKS
#define TASKS 2
#endif
#define CHANNELS 2
#define ARMS 4
#define SIDE(t, i) (i)
#endif

#define SIDES (2 * CHANNELS)
#define CANCELLED SIDES
#define MAY_STAY_PARKED
#include "word.pml"

#define BIT(t) (1 << (t))
#define SENDS(side) ((side) % 2 == 0)

bool locked[CHANNELS];
byte queue[SIDES];       /* the set of tasks with an arm linked on this side, under the lock */
byte wants[SIDES];       /* ghost: the tasks whose unfinished select names this side */
bool gave[TASKS];        /* ghost: the task's value has left it */
byte got[TASKS];         /* ghost: 1 + the task whose value arrived */
byte ended;              /* ghost: the set of tasks that have ended */

mtype = { WAITING, WON, LOST, RETRY };

/* Both waits are claimed and the lock is held: the value moves. */
inline move(s, r) {
  d_step { assert(!gave[s] && !got[r] && !gave[r] && !got[s]); gave[s] = true; got[r] = s + 1 }
}

inline pick_peer() {
  if
  :: peers & BIT(0) -> p = 0
  :: peers & BIT(1) -> p = 1
#if TASKS > 2
  :: peers & BIT(2) -> p = 2
#endif
#if TASKS > 3
  :: peers & BIT(3) -> p = 3
#endif
  fi;
  peers = peers & ~BIT(p)
}

inline unlink_peer() { queue[side ^ 1] = queue[side ^ 1] & ~BIT(p) }

/* A peer that is claimed already will take its arm away itself; we may also unlink it now. */
inline dead_peer() {
#ifndef BROKEN_LEAVE_DEAD_ARM
#ifdef NO_PEEK
  unlink_peer()
#else
  if
  :: unlink_peer()
  :: true
  fi
#endif
#else
  skip
#endif
}

/* Try one peer: claim yourself first, once, then the peer. Sets `state` when the scan is over. */
inline meet() {
  if
#ifndef NO_PEEK
  :: CLOSED_TO_CLAIMS(p) -> dead_peer()   /* looked before claiming: nothing is burned */
#endif
  :: else ->
#if defined(BROKEN_NO_SELF_CLAIM)
     mine = true;
#elif defined(BROKEN_PEER_FIRST)
     claim(p, ok);
     if
     :: ok -> claim(me, ok); mine = ok; state = (ok -> state : LOST)
     :: else -> dead_peer()
     fi;
#else
     if
     :: !mine -> claim(me, mine); state = (mine -> state : LOST)
     :: else
     fi;
#endif
     if
     :: state == LOST
     :: else ->
#ifndef BROKEN_PEER_FIRST
        claim(p, ok);
#endif
        if
        :: ok ->
           if
           :: SENDS(side) -> move(me, p)
           :: else -> move(p, me)
           fi;
           winner[p] = side ^ 1;
           unlink_peer();
           winner[me] = side;
           state = WON
        :: else ->
#ifndef BROKEN_PEER_FIRST
           dead_peer();
           if
           :: state = RETRY
           :: true                        /* or go on: the next peer may be alive */
           fi
#endif
        fi
     fi
  fi
}

/* arm: under the channel's lock, meet a peer or publish yourself. */
inline arm() {
  d_step { side = SIDE(me, i); state = WAITING; mine = false };
  lock(locked[side / 2]);
#ifdef BROKEN_MEETS_ITSELF
  peers = queue[side ^ 1];
#else
  peers = queue[side ^ 1] & ~BIT(me);
#endif
  do
  :: peers && state == WAITING -> pick_peer(); meet()
  :: else -> break
  od;
  if
#ifdef BROKEN_UNCLAIM_INSTEAD_OF_RETRY
  :: state != LOST && state != WON ->
     if
     :: mine -> word[me] = word[me] & ~CLAIMED
     :: else
     fi;
     state = WAITING;
     queue[side] = queue[side] | BIT(me)
#else
  :: state == WAITING && mine -> state = RETRY
  :: state == WAITING && !mine -> queue[side] = queue[side] | BIT(me)
#endif
  :: else
  fi;
  unlock(locked[side / 2]);
  if
  :: state == WON -> commit(p, prev)      /* after this the peer's memory is not touched */
  :: else
  fi;
  d_step { peers = 0; p = 0; ok = false; mine = false; side = 0 }
}

/* The winning arm is not linked, and its channel may be gone: only the losers are disarmed. On a
 * retry there is no winner, so every arm is. */
inline disarm_losers() {
  i = 0;
  do
  :: i < ARMS && SIDE(me, i) == winner[me] -> i++
  :: i < ARMS && SIDE(me, i) != winner[me] ->
     side = SIDE(me, i);
     lock(locked[side / 2]);
     queue[side] = queue[side] & ~BIT(me);
     unlock(locked[side / 2]);
     i++
  :: else -> break
  od;
  i = 0;
  side = 0
}

proctype Task(byte me) {
  mtype state;
  bool ok, mine;
  byte prev, i, p, peers, side;

again:
  open(me);
  i = 0;
  do
  :: i < ARMS ->
     arm();
     i++;
     if
     :: state != WAITING -> break
     :: else
     fi
  :: else -> break
  od;
  i = 0;
  if
  :: state == WON || state == RETRY
  :: else -> suspend(me, prev)
  fi;
  close(me);
#ifndef BROKEN_NO_DISARM
  disarm_losers();
#endif
  if
  :: state == RETRY ->
#ifdef WITNESS_RETRY
     assert(false);
#endif
     state = 0;
     goto again
  :: else -> state = 0
  fi;
  d_step {
    assert(winner[me] != NOBODY);
    assert(gave[me] == (winner[me] < CANCELLED && SENDS(winner[me])));
    assert((got[me] != 0) == (winner[me] < CANCELLED && !SENDS(winner[me])));
    i = 0;
    do
    :: i < ARMS ->
       assert(!(queue[SIDE(me, i)] & BIT(me)));
       wants[SIDE(me, i)] = wants[SIDE(me, i)] & ~BIT(me);
       i++
    :: else -> break
    od;
    i = 0;
    ended = ended | BIT(me)
  }
}

proctype Canceller(byte victim) {
  bool ok;
  byte prev;

  cancel(victim, ok);
  if
  :: ok -> winner[victim] = CANCELLED; commit(victim, prev)
  :: else
  fi
}

/* Nothing can move any more. */
inline rest() {
  d_step {
    t = 0;
    do
    :: t < TASKS -> assert((ended & BIT(t)) || word[t] == (PARKED | phase[t])); t++
    :: else -> break
    od;
    t = 0;
    do
    :: t < SIDES ->
       assert(queue[t] == wants[t]);
       /* two different tasks on the two sides of a channel should have met */
       assert(!wants[t] || !wants[t ^ 1] ||
              (wants[t] == wants[t ^ 1] && !(wants[t] & (wants[t] - 1))));
       t++
    :: else -> break
    od;
    t = 0;
    do
    :: t < TASKS -> assert(!got[t] || gave[got[t] - 1]); t++
    :: else -> break
    od
  }
}

init {
  byte t, i;
  atomic {
    do
    :: t < TASKS ->
       i = 0;
       do
       :: i < ARMS -> wants[SIDE(t, i)] = wants[SIDE(t, i)] | BIT(t); i++
       :: else -> break
       od;
       run Task(t);
       t++
    :: else -> break
    od;
    i = 0; t = 0;
#ifdef CANCEL
    run Canceller(CANCEL)
#endif
  };
  timeout -> rest()
}
