/* How the workers of a pool go to sleep and are woken, and who attends to the outside.
 *
 * A worker out of work becomes a searcher (at most LIMIT at a time), looks at the injector and at
 * the others' queues, and goes to sleep if it finds nothing. One sleeper, the poller, sleeps in the
 * kernel until the next timer or an I/O event; the others sleep each on its own futex. A producer
 * wakes one sleeper, unless somebody is searching; the woken one searches. Whoever stops searching
 * last because it found work sees to the rest: more work, or a kernel that nobody attends to.
 *
 * Tasks may need each other: one that waits for another blocks its worker, so that the other must
 * be run by somebody else. What should have been woken and was not, ends in a state where some task
 * has not been run: the assertions in init.
 *
 *   SCENARIO  BURST  three tasks from outside, each but the last waits for the next
 *             SPAWN  a task from outside pushes two; it waits for one, and that for the other
 *             IO     tasks woken by three events, each but the last waits for the next
 *             TIMER  a task arms a timer and waits for its task; a plain thread arms one too
 *             INBOX  tasks for particular workers, one of which waits for an event
 *   LAZY      a poller that leaves does not look for a successor; a monitor does. So it is in Pool
 *   RETIRES   1: the last worker is a spare one, and may end when it has nothing to do
 *
 * Proven, for every interleaving:
 *   - every task is run: none lies in a queue while all who could take it sleep
 *   - a timer that is due and an event that has come are served, though workers are blocked
 *   - in the end exactly one worker polls; never two are in the kernel, which bears only one
 *   - never more than LIMIT workers search
 *   - nobody goes round in circles (search `cycles`): an idle pool is idle
 *
 * Abstracted: queues are sets, the lowest task first. Time is a number that may grow at any moment.
 * `searching` and `sleeping` are one word: each change is one read-modify-write. A critical section
 * is one step, which is exact: what it writes is read outside of it only by a worker that waits for
 * it, or once. For the same reason a step may begin with reads that only repeat what it does.
 */
#define BURST 1
#define SPAWN 2
#define IO    3
#define TIMER 4
#define INBOX 5
#ifndef SCENARIO
#define SCENARIO BURST
#endif
#ifndef WORKERS
#define WORKERS 2
#endif
#ifndef RETIRES
#define RETIRES 0
#endif
#define STAYING (WORKERS - RETIRES) /* so many tasks may block their workers at a time */
#define LIMIT (WORKERS / 2)
#define TASKS 4
#define ALL 7 /* the fourth is a timer that never comes */
#define NONE 255
#define NEVER 9

byte searching, sleeping;  /* the word */
bool asleep[WORKERS];      /* the futex word: cleared by whoever takes the worker out of sleep */
bool hunting[WORKERS];     /* this worker counts as searching */
byte poller = NONE;        /* who may be in the kernel; given up by itself alone */
bool interrupted;          /* latched: ends the kernel's wait, or the next one */
byte sleeps_until;         /* when the poller will be back; 0: nobody sleeps in the kernel */

byte injector;             /* sets of tasks */
byte queue[WORKERS];
byte inbox[WORKERS];
byte events;               /* tasks whose I/O events the kernel has to report */
byte deadline[TASKS] = NEVER;  /* of the task's timer, if it is armed */
byte now = 1;
byte done;                 /* ghost: the tasks that were run */
byte in_kernel;            /* ghost */
byte gone;                 /* ghost: workers that have ended */

#define BIT(t) (1 << (t))

/* In a step: takes the lowest task out of a set; NONE if it is empty. */
inline take(set, task) {
  task = 0;
  do
  :: task < TASKS && !(set & BIT(task)) -> task++
  :: else -> break
  od;
  if
  :: task < TASKS -> set = set & ~BIT(task)
  :: else -> task = NONE
  fi
}

/* In a step: the kernel must be told, not the futex, if that is where `who` sleeps. */
inline must_interrupt(who) {
#ifdef BROKEN_RING_ONLY_THE_FUTEX
  ring = false
#else
  ring = (poller == who)
#endif
}

/* After the step, outside the lock. */
inline interrupt() {
  if
#ifdef BROKEN_INTERRUPT_IS_NOT_LATCHED
  :: ring -> d_step { interrupted = (in_kernel > 0); ring = false }
#else
  :: ring -> d_step { interrupted = true; ring = false }
#endif
  :: else
  fi
}

/* Wakes one sleeper, the poller last, unless somebody is searching. The count goes up on the
 * sleeper's behalf: until it runs, the next producer must not wake another. */
inline wake_one() {
  d_step {
    who = 0;
    do
    :: who < WORKERS && (!asleep[who] || who == poller) -> who++
    :: else -> break
    od;
    if
    :: who == WORKERS && poller != NONE && asleep[poller] -> who = poller
    :: else
    fi;
    if
    :: who < WORKERS && searching == 0 ->
       searching++; sleeping--; hunting[who] = true; asleep[who] = false;
       must_interrupt(who);
#ifdef BROKEN_WAKER_FREES_THE_POLLER
       poller = (ring -> NONE : poller)
#endif
    :: else
    fi;
    who = 0
  };
  interrupt()
}

/* For a task that this worker must run: takes it out of sleep, but not as a searcher. */
inline wake_this(w) {
  d_step {
    if
    :: asleep[w] -> sleeping--; asleep[w] = false; must_interrupt(w)
    :: else
    fi
  };
  interrupt()
}

/* Is there anything to be found? One queue after the other: things move meanwhile. */
inline look_everywhere() {
  d_step { seen = (injector != 0); i = 0 };
  do
  :: d_step { !seen && i < WORKERS -> seen = (queue[i] != 0); i++ }
  :: d_step { seen || i == WORKERS -> i = 0 }; break
  od
}

/* Takes something from the injector, with a second task for the own queue, or from a victim. */
inline search() {
  d_step { take(injector, task); take(injector, more) };
  if
  :: more != NONE -> d_step { queue[me] = queue[me] | BIT(more); more = NONE }
  :: else
  fi;
  do
  :: d_step { task == NONE && i < WORKERS -> take(queue[i], task); i++ }
  :: d_step { task != NONE || i == WORKERS -> i = 0 }; break
  od
}

/* A searcher has found work, and is none any more. If it was the last one, producers have relied on
 * it, and so does the kernel if nobody attends to it. */
inline stop_searching() {
#ifdef BROKEN_LOOK_BEFORE_STOPPING
  look_everywhere();
  skip;
  d_step { hunting[me] = false; searching--; last = (searching == 0) };
#else
  d_step { hunting[me] = false; searching--; last = (searching == 0) };
  if
  :: last -> look_everywhere()
  :: else
  fi;
#endif
  if
#ifndef BROKEN_LAST_SEARCHER_IS_SILENT
#if defined(LAZY) || defined(BROKEN_LAST_SEARCHER_FORGETS_THE_KERNEL)
  :: last && seen -> wake_one()
#else
  :: last && (seen || poller == NONE) -> wake_one()
#endif
#endif
  :: else
  fi;
  d_step { seen = false; last = false }
}

/* In a step: the first deadline. */
inline next_deadline() {
  until = NEVER;
  do
  :: i < TASKS -> until = (deadline[i] < until -> deadline[i] : until); i++
  :: else -> break
  od;
  i = 0
}

inline arm(t, at) {
#ifdef BROKEN_LOOK_BEFORE_ARMING
  ring = (at < sleeps_until);
  deadline[t] = at;
#else
  deadline[t] = at;
#ifndef BROKEN_ARM_WITHOUT_INTERRUPT
  ring = (at < sleeps_until);
#endif
#endif
  interrupt()
}

/* In a step: events and due timers make their tasks ready, in the own queue. */
inline harvest() {
  queue[me] = queue[me] | events;
  events = 0;
  do
  :: i < TASKS && deadline[i] <= now -> deadline[i] = NEVER; queue[me] = queue[me] | BIT(i); i++
  :: i < TASKS && deadline[i] > now -> i++
  :: else -> break
  od;
  i = 0
}

/* As the poller: in the kernel until something has come, or somebody has taken us out of sleep. */
inline poll() {
  do
  :: !asleep[me] || queue[me] != 0 -> break
  :: else ->
#if SCENARIO == TIMER
     d_step { next_deadline() };
     sleeps_until = until;
#ifndef BROKEN_NO_SECOND_LOOK_AT_TIMERS
     d_step { next_deadline() };
#endif
#endif
     d_step { in_kernel++; assert(in_kernel == 1) };
end_polling:
     d_step {
       interrupted || events != 0 || now >= until -> interrupted = false; in_kernel--; until = NEVER
     };
#if SCENARIO == TIMER
     sleeps_until = 0;
#endif
     d_step { harvest() };
#ifdef WITNESS_FALSE_ALARM
     if :: asleep[me] && queue[me] == 0 -> assert(false) :: else fi
#endif
  od
}

/* Out of sleep on our own account, if nobody was faster, and not the poller any more. A poller who
 * leaves in order to run something sees to it that another takes over. */
inline leave() {
  d_step {
    if
    :: asleep[me] -> asleep[me] = false; sleeping--
    :: else
    fi;
    if
    :: poller == me -> poller = NONE; last = !hunting[me]
    :: else
    fi
  };
  if
#if !defined(LAZY) && !defined(BROKEN_NO_SUCCESSOR)
  :: last -> wake_one()
#endif
  :: else
  fi;
  last = false
}

/* Announce, look once more at everything, then sleep. Afterwards: we count as searching, or there
 * is something in our own queue or inbox. */
inline sleep() {
#ifdef BROKEN_LOOK_BEFORE_ANNOUNCING
  look_everywhere();
  skip;
#endif
  d_step {
    asleep[me] = true;
    sleeping++;
    searching = searching - hunting[me];
    hunting[me] = false;
    poller = (poller == NONE -> me : poller)
  };
#if !defined(BROKEN_LOOK_BEFORE_ANNOUNCING) && !defined(BROKEN_NO_SECOND_LOOK)
  look_everywhere();
#endif
  if
#ifndef BROKEN_NO_SECOND_LOOK_AT_THE_INBOX
  :: inbox[me] != 0 -> leave()
#endif
  :: else ->
     d_step {
#ifdef WITNESS_LEFT_TO_THE_SEARCHERS
       if :: seen && asleep[me] && searching == LIMIT -> assert(false) :: else fi;
#endif
#ifdef WITNESS_TAKEN_WHILE_LOOKING
       if :: seen && !asleep[me] -> assert(false) :: else fi;
#endif
       if
       :: seen && asleep[me] && searching < LIMIT ->
          asleep[me] = false; sleeping--; searching++; hunting[me] = true
       :: else  /* nothing; or taken already; or those who search now will see it too */
       fi;
       seen = false
     }
  fi;
  if
  :: poller == me -> poll(); leave()
  :: else ->
end_asleep:
     !asleep[me]
  fi
}

/* What the tasks do. A task that waits blocks its worker. */
#if STAYING > 1
inline await(t) { (done & BIT(t)) }
#else
inline await(t) { skip }
#endif

inline run_task() {
  if
#if SCENARIO == BURST || SCENARIO == IO
  :: task == 0 -> await(1)
#if STAYING > 2
  :: task == 1 -> await(2)
#endif
#elif SCENARIO == SPAWN
  :: task == 0 ->
     queue[me] = queue[me] | BIT(1);
     wake_one();
     queue[me] = queue[me] | BIT(2);
     wake_one();
     await(1)
#if STAYING > 2
  :: task == 1 -> await(2)
#endif
#elif SCENARIO == TIMER
  :: task == 0 -> arm(1, 2); await(1)
#elif SCENARIO == INBOX
  :: task == 0 -> await(2)
#endif
  :: else
  fi;
  d_step { assert(!(done & BIT(task))); done = done | BIT(task); task = NONE }
}

proctype Worker(byte me) {
  byte task = NONE, more = NONE, who, i, until = NEVER;
  bool seen, last, ring;
#ifdef BROKEN_SEARCHES_WHILE_IT_RUNS
  bool at_home;
#endif

  do
  :: d_step {
       take(queue[me], task);
       if
       :: task == NONE -> take(inbox[me], task)
       :: else
       fi
     };
#if RETIRES
     if
     :: task == NONE && me == WORKERS - 1 ->
        if
        :: break
        :: skip
        fi
     :: else
     fi;
#endif
     d_step {
       if
       :: task == NONE && !hunting[me] && searching < LIMIT -> searching++; hunting[me] = true
       :: else
       fi;
       assert(searching <= LIMIT)
     };
#ifdef BROKEN_SEARCHES_WHILE_IT_RUNS
     at_home = (task != NONE);
#endif
     if
     :: task == NONE && hunting[me] -> search()
     :: else
     fi;
     if
#ifdef BROKEN_SEARCHES_WHILE_IT_RUNS
     :: task != NONE && hunting[me] && !at_home -> stop_searching()
#else
     :: task != NONE && hunting[me] -> stop_searching()  /* wherever it comes from */
#endif
     :: else
     fi;
     if
     :: task != NONE -> run_task()
     :: else -> sleep()
     fi
  od;
#if RETIRES
  /* Producers may have relied on it. */
#ifndef BROKEN_RETIRES_SILENTLY
  if
  :: hunting[me] -> stop_searching()
  :: else
  fi;
#else
  skip;
  d_step { searching = searching - hunting[me]; hunting[me] = false };
#endif
#ifdef WITNESS_RETIRES
  assert(false);
#endif
  gone++
#endif
}

/* A plain thread. */
proctype Outside() {
  byte who;
  bool ring;

#if SCENARIO == BURST
  injector = injector | BIT(0);
  wake_one();
  injector = injector | BIT(1);
  wake_one();
  injector = injector | BIT(2);
  wake_one()
#elif SCENARIO == SPAWN
  injector = BIT(0);
  wake_one()
#elif SCENARIO == IO
  events = events | BIT(0);
  events = events | BIT(1);
  events = events | BIT(2)
#elif SCENARIO == TIMER
  injector = BIT(0);
  wake_one();
  arm(2, 2)
#elif SCENARIO == INBOX
  inbox[0] = BIT(0);
  wake_this(0);
  inbox[1] = BIT(1);
  wake_this(1);
  events = BIT(2)
#endif
}

#if SCENARIO == TIMER
/* What is due at 2 must not wait for 3, which never comes. */
active proctype Clock() { now = 2 }
#endif

#ifdef LAZY
active proctype Monitor() {
  byte who;
  bool ring;

end:
  do
  :: poller == NONE && searching == 0 && sleeping > 0 -> wake_one()
  od
}
#endif

init {
  byte w;

  atomic {
#if SCENARIO == TIMER
    deadline[3] = 3;
#endif
    do
    :: w < WORKERS -> run Worker(w); w++
    :: else -> break
    od;
    run Outside()
  };
  /* Nobody can go on. */
  timeout -> assert(done == ALL);
  assert(sleeping + gone == WORKERS && searching == 0 && in_kernel == 1)
}
