/* The latch of a descriptor (include/weft/io/source.hpp): kernels that report only changes, readers
 * that try first and wait if there was nothing, a peer that sends, ends or is never heard of again,
 * and a close.
 *
 * A reader looks at the latch (`seen`), makes the call, and clears the latch if the call found that
 * there is no more, by a compare-and-exchange with what it saw before the call. If that was not
 * enough it arms under the source's lock, where it finds the latch set or is linked, and parks.
 * Whoever was woken tries, and wakes the next one if the latch is still set: a change wakes one
 * reader, and what that one leaves is passed on.
 *
 * The source is watched by one kernel at a time. A kernel reports only while somebody runs it, and
 * that is while one of its readers has not finished; with -DKERNEL_DIES it is destroyed then. The
 * watch follows those who wait.
 *
 * Scenarios, by numbers (-D...):
 *   READERS      2 or 3, on KERNELS 1 or 2 in turn; reader 0 has a buffer for two bytes
 *   BYTES        sent by the peer, each an edge of its own unless it is merged with another
 *   END=1        then the peer ends the stream, and every reader reads until it sees that; else
 *                each reads once
 *   CLOSE=1      somebody closes the source, at any time; every reader reads until it sees that
 *   RIVAL=1      reader 0 waits in a select whose other case may win, once, at any time: as a
 *                timeout or a cancellation does
 *   WRITER=1     meanwhile a writer clears the bit of the other direction
 *
 * Proven, for every interleaving:
 *   - no lost wake-up: when nothing moves any more, nobody is parked if there is a byte to read,
 *     the stream has ended, or the source is closed
 *   - a byte is received once, or still there; who loses a select has received none
 *   - after the end or a close everybody finishes
 *   - no call is made on a number that has been closed; it is closed in the end
 *   - no arm is left linked; a reader is resumed once per suspension (word.pml)
 *   - nobody spins: no cycle, though a false alarm sends a reader back to wait
 *
 * Abstracted: queues are sets, so the order in which waiters are woken is left open. An event
 * reports the state at the time it is fetched, as epoll does. The number of changes does not wrap.
 * A critical section is one step. What it touches that its lock does not protect (the latch, the
 * words, the machine's own state) others touch one at a time, in no order that could tell.
 */
#ifndef READERS
#define READERS 2
#endif
#ifndef KERNELS
#define KERNELS 1
#endif
#ifndef BYTES
#define BYTES 2
#endif
#ifndef END
#define END 0
#endif
#ifndef CLOSE
#define CLOSE 0
#endif
#ifndef RIVAL
#define RIVAL 0
#endif
#ifndef WRITER
#define WRITER 0
#endif

#define TASKS READERS
#define MAY_STAY_PARKED
#define CANCELLED 3    /* nobody is: the rival case stands for it */
#include "word.pml"

#define READABLE   1   /* the latch */
#define READ_END   2
#define WRITABLE   4
#define ONE_CHANGE 8
#define TO_READ    (READABLE | READ_END)

#define WOKEN 1        /* values of winner[] */
#define RIVALED 2

#define OF(reader) (reader % KERNELS)
#define SIZE(reader) (reader == 0 -> 2 : 1)

/* The machine */
byte data;
bool ended;
bool edge[KERNELS];          /* epoll has something to report */
bool number_closed;

/* The source */
byte latch = READABLE | WRITABLE;
byte watcher = NOBODY;
bool linked[READERS];
bool rival_linked;           /* reader 0, on the rival case's object */
byte users;                  /* calls in progress */
bool closed;

/* Ghosts */
byte sent, received;
bool finished[READERS];

#if KERNELS == 1
#define RUN(k) true
#elif READERS == 2
#define RUN(k) (!finished[k])
#else
#define RUN(k) (!finished[k] || (k == 0 && !finished[2]))
#endif

mtype = { FULL, SHORT, NOTHING, ENDED, REFUSED };
mtype = { WAITING, WON, LOST };

/* Under the lock. The present state counts as a change. */
inline watch(k) {
  watcher = k;
#ifdef BROKEN_PRESENT_STATE_NOT_REPORTED
  edge[k] = false
#else
  edge[k] = data > 0 || ended
#endif
}
inline unwatch() {
  if
  :: watcher != NOBODY -> edge[watcher] = false; watcher = NOBODY
  :: else
  fi
}

#if READERS == 2
#define EVERYBODY_FINISHED (finished[0] && finished[1])
#define SOMEBODY_LINKED (linked[0] || linked[1])
#define A_LINKED_ONE (linked[0] -> 0 : 1)
#define LINKED_ON(k) ((linked[0] && OF(0) == k) || (linked[1] && OF(1) == k))
#else
#define EVERYBODY_FINISHED (finished[0] && finished[1] && finished[2])
#define SOMEBODY_LINKED (linked[0] || linked[1] || linked[2])
#define A_LINKED_ONE (linked[0] -> 0 : (linked[1] -> 1 : 2))
#define LINKED_ON(k) \
  ((linked[0] && OF(0) == k) || (linked[1] && OF(1) == k) || (linked[2] && OF(2) == k))
#endif

/* Whoever waits must be watched for by a kernel that is run: that of somebody who waits. */
inline follow_waiters() {
#if KERNELS > 1 && !defined(BROKEN_WATCH_STAYS)
  if
  :: watcher != NOBODY && SOMEBODY_LINKED && !LINKED_ON(watcher) ->
     unwatch();
     watch(OF(A_LINKED_ONE))
  :: else
  fi
#else
  skip
#endif
}

/* Under the lock: claims one waiter, or all. `woken` is the set to be committed after unlocking. */
inline wake(all) {
  do
  :: linked[0] -> linked[0] = false; try_to_wake(0, all)
  :: linked[1] -> linked[1] = false; try_to_wake(1, all)
#if READERS > 2
  :: linked[2] -> linked[2] = false; try_to_wake(2, all)
#endif
  :: else -> break
  od;
  ok = false
}
inline try_to_wake(r, all) {
  claim(r, ok);
  if
  :: ok ->
     winner[r] = WOKEN;
     woken = woken | (1 << r);
     if
     :: !(all) -> break
     :: else
     fi
#ifdef BROKEN_STOP_AT_FAILED_CLAIM
  :: !ok && !(all) -> break
  :: !ok && (all)
#else
  :: else
#endif
  fi
}

inline commit_woken() {
  do
  :: woken & 1 -> woken = woken & ~1; commit(0, prev)
  :: woken & 2 -> woken = woken & ~2; commit(1, prev)
#if READERS > 2
  :: woken & 4 -> woken = woken & ~4; commit(2, prev)
#endif
  :: woken == 0 -> break
  od;
  prev = 0
}

/* used_up() and would_block(): only if nothing has changed since `seen`. */
inline clear(bits) {
#ifdef BROKEN_PLAIN_CLEAR
  latch = latch & ~(bits)
#else
  d_step {
    if
    :: latch == seen -> latch = latch & ~(bits)
    :: else
    fi
  }
#endif
}

inline enter() {
  d_step {
    ok = !closed;
    if
    :: ok -> users++
    :: else
    fi
  }
}
inline leave() {
  d_step {
    users--;
    if
    :: users == 0 && closed -> number_closed = true
    :: else
    fi
  }
}

/* What the machine does in a call. */
inline call() {
  d_step {
    assert(!number_closed);
    if
    :: data >= SIZE(me) -> got = SIZE(me); how = FULL
    :: data > 0 && data < SIZE(me) -> got = data; how = SHORT
    :: data == 0 && ended -> how = ENDED
    :: else
    fi;
    data = data - got;
    received = received + got;
    got = 0
  }
}

/* How it went is in `how`: NOTHING means wait. */
inline attempt() {
  d_step { how = NOTHING; seen = latch };
  if
  :: seen & TO_READ ->
#if CLOSE
     enter();
     if
     :: ok -> call(); leave()
     :: else -> how = REFUSED
     fi;
#else
     call();
#endif
     if
     :: how == NOTHING -> clear(TO_READ)
#ifdef BROKEN_SHORT_READ_CLEARS_END
     :: how == SHORT -> clear(TO_READ)
#else
     :: how == SHORT -> clear(READABLE)
#endif
     :: else
     fi
  :: else
  fi;
  d_step { seen = 0; ok = false }
}

inline arm() {
#ifdef BROKEN_LATCH_READ_WITHOUT_LOCK
  seen = latch;
  atomic {
#else
  atomic {
    seen = latch;
#endif
    if
    :: seen & TO_READ ->
       claim(me, ok);
       if
       :: ok -> winner[me] = WOKEN; state = WON
       :: else -> state = LOST
       fi
    :: else ->
       if
       :: watcher == OF(me)
       :: watcher != NOBODY && watcher != OF(me) && SOMEBODY_LINKED  /* served by another */
       :: else ->
#if KERNELS > 1
          unwatch();
#endif
          watch(OF(me))
       fi;
       linked[me] = true
    fi;
    seen = 0;
    ok = false
  }
}

/* What a reader that was woken leaves, it passes on. */
inline pass_on() {
#ifndef BROKEN_NO_PASS_ON
  if
  :: latch & TO_READ -> atomic { wake(false) }; commit_woken()
  :: else
  fi;
#endif
  atomic { follow_waiters() }
}

proctype Reader(byte me) {
  mtype how, state;
  byte seen, got, prev, woken;
  bool ok;

  do
  :: attempt();
     do
     :: how != NOTHING -> break
     :: else ->
        d_step { state = WAITING; winner[me] = NOBODY };
        open(me);
        rival_linked = rival_linked || (RIVAL && me == 0);
        arm();
        if
        :: state == WON
        :: else -> suspend(me, prev)
        fi;
        rival_linked = rival_linked && me != 0;
        if
        :: winner[me] == WOKEN -> attempt(); pass_on()
        :: else ->
           assert(winner[me] == RIVALED);
           atomic { linked[me] = false; follow_waiters() };
           break
        fi
     od;
     close(me);
     assert(!linked[me]);
     if
     :: how == NOTHING || how == ENDED || how == REFUSED -> break
     :: else ->
#if !END && !CLOSE
        break
#endif
     fi
  od;
  atomic {
    finished[me] = true
#ifdef KERNEL_DIES
    ; if
    :: !RUN(OF(me)) && watcher == OF(me) -> assert(!SOMEBODY_LINKED); unwatch()
    :: else
    fi
#endif
  }
}

/* Fetches what there is to report, then reports it. */
proctype Kernel(byte me) {
  byte bits, prev, woken;
  bool ok;

end_idle:
  do
  :: edge[me] && RUN(me) ->
     d_step {
       edge[me] = false;
       bits = (data > 0 || ended -> READABLE : 0) | (ended -> READ_END : 0) | WRITABLE
     };
     atomic {
#ifndef BROKEN_LATCHED_AFTER_WAKING
       latch = (latch + ONE_CHANGE) | bits;
#endif
       if
       :: bits & READ_END -> wake(true)
       :: (bits & READABLE) && !(bits & READ_END) -> wake(false)
       :: else
       fi
     };
#ifdef BROKEN_LATCHED_AFTER_WAKING
     latch = (latch + ONE_CHANGE) | bits;
#endif
     bits = 0;
     commit_woken()
  :: EVERYBODY_FINISHED -> break
  od
}

inline tell() {
  if
  :: watcher != NOBODY -> edge[watcher] = true
  :: else
  fi
}

proctype Peer() {
  do
  :: sent < BYTES -> d_step { sent++; data++; tell() }
  :: else -> break
  od
#if END
  ; atomic { ended = true; tell() }
#endif
}

#if CLOSE
proctype Closer() {
  byte prev, woken;
  bool ok;

  enter();
#ifndef BROKEN_CLOSED_AFTER_WAKING
  closed = true;
#endif
#ifdef BROKEN_NUMBER_CLOSED_AT_ONCE
  number_closed = true;
#endif
  atomic {
#ifndef BROKEN_CLOSE_WITHOUT_LATCH
    latch = (latch + ONE_CHANGE) | READABLE | WRITABLE | READ_END;
#endif
    wake(true);
    unwatch()
  };
  commit_woken();
#ifdef BROKEN_CLOSED_AFTER_WAKING
  closed = true;
#endif
  leave()
}
#endif

#if RIVAL
proctype Rival() {
  bool ok;
  byte prev;

  atomic {
    if :: rival_linked -> rival_linked = false; claim(0, ok) :: else fi;
    winner[0] = (ok -> RIVALED : winner[0])
  };
  if
  :: ok -> commit(0, prev)
  :: else
  fi
}
#endif

#if WRITER
/* used_up() of the other direction: changes the latch, not the number of changes. */
proctype Writer() {
  byte seen;

  seen = latch;
  clear(WRITABLE)
}
#endif

#define PARKED_FOR_EVER(t) (saved[t] && !runnable[t])

init {
  atomic {
    run Reader(0);
    run Reader(1);
#if READERS > 2
    run Reader(2);
#endif
    run Kernel(0);
#if KERNELS > 1
    run Kernel(1);
#endif
    run Peer();
#if CLOSE
    run Closer();
#endif
#if RIVAL
    run Rival();
#endif
#if WRITER
    run Writer();
#endif
  };
  timeout;
  /* Nothing moves any more. */
  d_step {
    bool somebody = PARKED_FOR_EVER(0) || PARKED_FOR_EVER(1);
#if READERS > 2
    somebody = somebody || PARKED_FOR_EVER(2);
#endif
    assert(received + data == BYTES);
    assert(!somebody || data == 0);
    assert(!somebody || !ended);
    assert(!somebody || !closed);
    assert(!CLOSE || number_closed);
    assert(somebody || !SOMEBODY_LINKED)
  }
}
