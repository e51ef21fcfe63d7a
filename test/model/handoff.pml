/* How a worker goes from one task to the next, directly, and who may then touch what was left.
 *
 * A task that yields, or ends, is still on its stack when the worker has chosen the next one. What
 * must happen to it (back into a queue that others look at, its fiber into the pool) is done by
 * whoever arrives next, on their own stack. A task is given a fiber when it first runs.
 *
 * Two workers share a queue and a pool of fibers; every task yields once and then ends, and wakes a
 * joiner in doing so: the joiner goes to the worker's hot slot, from which others may take it.
 *
 * Proven, for every interleaving:
 *   - never are two on one stack
 *   - a task runs once for each time it was queued, and every task is run to its end, joiners too
 *   - in the end all fibers are in the pool
 */
#define WORKERS 2
#define TASKS 2          /* and for each of them a joiner: task t + TASKS */
#define ALL 15
#define FIBERS 4
#define NONE 255
#define BIT(t) (1 << (t))

byte queue = 3;          /* a set of tasks; the lowest first */
byte hot[WORKERS] = NONE;
byte pool = 15;          /* a set of fibers */
byte fiber[2 * TASKS] = NONE;
byte turns[2 * TASKS];   /* ghost: how often it ran */
byte on_stack[FIBERS];   /* ghost */
byte done;               /* ghost: tasks that ended */

inline lowest(set, item) {
  item = 0;
  do
  :: item < 4 && !(set & BIT(item)) -> item++
  :: else -> break
  od;
  if
  :: item < 4 -> set = set & ~BIT(item)
  :: else -> item = NONE
  fi
}

/* The next task: hot, queued, or somebody else's hot one. */
inline take(task) {
  d_step { task = hot[me]; hot[me] = NONE };
  if
  :: task == NONE -> d_step { lowest(queue, task) }
  :: else
  fi;
  if
  :: task == NONE -> d_step { task = hot[1 - me]; hot[1 - me] = NONE }
  :: else
  fi
}

/* Control arrives on the next task's stack. */
inline arrive(task) {
  if
  :: fiber[task] == NONE -> d_step { lowest(pool, f); assert(f != NONE); fiber[task] = f; f = 0 }
  :: else
  fi;
  d_step {
    on_stack[fiber[task]]++;
    assert(on_stack[fiber[task]] == 1);
    assert(!(done & BIT(task)));
    turns[task]++
  }
}

/* What the task that left could not do for itself. */
inline settle(task) {
  if
  :: ends -> d_step { pool = pool | BIT(fiber[task]); fiber[task] = NONE }
  :: else -> queue = queue | BIT(task)
  fi
}

proctype Worker(byte me) {
  byte now = NONE, next = NONE, f;
  bool ends;

  do
  :: take(now);
     if
     :: now == NONE -> (queue != 0 || hot[1 - me] != NONE || done == ALL)
     :: else -> arrive(now)
     fi;
     do
     :: now == NONE -> break
     :: else ->
        /* It runs, wakes its joiner if it ends, and chooses who is next. */
        ends = (now >= TASKS || turns[now] == 2);
        if
        :: ends -> d_step {
             done = done | BIT(now);
             if
             :: now < TASKS -> assert(hot[me] == NONE); hot[me] = now + TASKS
             :: else
             fi
           }
        :: else
        fi;
#if defined(BROKEN_QUEUED_ON_ITS_STACK)
        if :: !ends -> settle(now) :: else fi;
#endif
#if defined(BROKEN_FIBER_FREED_ON_ITS_STACK)
        f = fiber[now];
        if :: ends -> settle(now) :: else fi;
#endif
        take(next);
        /* Off its stack, and on the next one's, or home. */
#if defined(BROKEN_FIBER_FREED_ON_ITS_STACK)
        if
        :: ends -> on_stack[f]--; f = 0
        :: else -> on_stack[fiber[now]]--
        fi;
#else
        on_stack[fiber[now]]--;
#endif
#ifdef WITNESS_DIRECT_HAND_OFF
        if :: ends && next == now + TASKS -> assert(false) :: else fi;
#endif
#ifdef BROKEN_FIBER_FREED_ON_ITS_STACK
        if :: !ends -> settle(now) :: else fi;
#elif defined(BROKEN_QUEUED_ON_ITS_STACK)
        if :: ends -> settle(now) :: else fi;
#else
        settle(now);
#endif
        if
        :: next != NONE -> arrive(next)
        :: else
        fi;
        d_step { now = next; next = NONE; ends = false }
     od;
     if
     :: done == ALL -> break
     :: else
     fi
  od
}

init {
  atomic { run Worker(0); run Worker(1) };
  (_nr_pr == 1);
  assert(pool == 15 && queue == 0);
  assert(turns[0] == 2 && turns[1] == 2 && turns[2] == 1 && turns[3] == 1)
}
