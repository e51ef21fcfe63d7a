/* The wait word: the one definition that every model in this directory includes.
 *
 * Each task owns one word. `claim` succeeds at most once per suspension, and `commit` and `park`
 * are read-modify-writes on it: whichever of the two comes second resumes the task. A claim of a
 * parked task ends what the word has to say about this suspension: it flips the phase, and the word
 * is the next one's from then on. Whoever comes by an arm of this suspension sees the other phase,
 * and fails. Between two suspensions nobody has an arm.
 *
 * A canceller has none. It ends the wait of a task that is parked; any other it leaves a mark,
 * which the next park finds.
 *
 * Checked here, in every model:
 *   - a task is resumed only after its context has been saved   (assert in `resume`)
 *   - a task is resumed exactly once per suspension             (the same assert: a second resume
 *     finds the task queued already, or running)
 *
 * Abstracted: the task and the scheduler's stack it leaves behind are one process. That is exact,
 * because after park's read-modify-write the scheduler touches the task only if it must resume it.
 * `saved` is ghost state: the context is complete and nobody runs on the task's stack.
 * The run queue is one flag per task: who runs it next, and when, is left open.
 *
 * The includer defines TASKS, CANCELLED (the winner that a mark makes), MAY_STAY_PARKED if a task
 * parked for ever is a valid end, and may define ON_MARK(t), ghost, when a mark has won.
 */
#define CLAIMED 1    /* when it was not parked; until the suspension is over */
#define DONE    2
#define PARKED  4
#define MARK    8
#define PHASE   16
#define NOBODY  255

byte word[TASKS];
byte phase[TASKS];            /* the waiter's: the word's, when the suspension was opened */
byte winner[TASKS] = NOBODY;  /* written by the claimant alone, between its claim and its commit */
bool saved[TASKS];
bool runnable[TASKS];

#ifndef ON_MARK
#define ON_MARK(t) skip
#endif

#ifdef BROKEN_ONE_PHASE
#define OVER(w) ((w) & (MARK | PHASE))
#else
#define OVER(w) (((w) ^ PHASE) & (MARK | PHASE))
#endif

inline lock(l) { atomic { !l -> l = true } }
inline unlock(l) { d_step { assert(l); l = false } }

/* What it claimed itself, and so has not parked with, it ends itself. */
inline close(t) {
  d_step {
    if
    :: word[t] & CLAIMED -> word[t] = OVER(word[t])
    :: else
    fi
  }
}
inline open(t) { close(t); phase[t] = word[t] & PHASE }

#define CLOSED_TO_CLAIMS(t) ((word[t] & PHASE) != phase[t] || (word[t] & CLAIMED))

inline claim(t, ok) {
#ifdef BROKEN_CLAIM_AS_LOAD_AND_STORE
  ok = !CLOSED_TO_CLAIMS(t);
#else
  d_step {
  ok = !CLOSED_TO_CLAIMS(t);
#endif
  if
  :: ok && (word[t] & PARKED) -> word[t] = OVER(word[t])
  :: ok && !(word[t] & PARKED) -> word[t] = word[t] | CLAIMED
  :: else
  fi
#ifndef BROKEN_CLAIM_AS_LOAD_AND_STORE
  }
#endif
}

inline cancel(t, ok) {
  d_step {
    ok = (word[t] & (PARKED | CLAIMED)) == PARKED;
#ifdef BROKEN_NO_MARK
    word[t] = (ok -> OVER(word[t]) : word[t])
#else
    word[t] = (ok -> OVER(word[t]) : word[t]) | MARK
#endif
  }
}

inline resume(t) { d_step { assert(saved[t] && !runnable[t]); runnable[t] = true } }

/* `prev` is a scratch variable of the caller, in commit and in suspend. */
inline commit(t, prev) {
#ifdef BROKEN_COMMIT_AS_LOAD_AND_STORE
  prev = word[t];
#else
  d_step {
  prev = word[t];
#endif
  if
  :: !(prev & CLAIMED)
  :: (prev & CLAIMED) && (prev & PARKED) -> word[t] = OVER(prev)
  :: (prev & CLAIMED) && !(prev & PARKED) -> word[t] = prev | DONE
  fi
#ifndef BROKEN_COMMIT_AS_LOAD_AND_STORE
  }
#endif
  ;
  if
  :: !(prev & CLAIMED) || (prev & PARKED) -> resume(t)
  :: else
  fi;
  prev = 0
}

#ifdef BROKEN_PARK_IGNORES_MARK
#define MARKED(w) false
#elif defined(BROKEN_MARK_BEATS_CLAIM)
#define MARKED(w) ((w) & MARK)
#else
#define MARKED(w) (((w) & (MARK | CLAIMED)) == MARK)
#endif

inline suspend(t, prev) {
#ifndef BROKEN_PARK_BEFORE_SAVE
  saved[t] = true;
#endif
#ifdef BROKEN_PARK_AS_LOAD_AND_STORE
  prev = word[t];
#else
  d_step {
  prev = word[t];
#endif
  if
  :: prev & DONE -> word[t] = OVER(prev)
  :: !(prev & DONE) && MARKED(prev) -> word[t] = OVER(prev); winner[t] = CANCELLED; ON_MARK(t)
  :: !(prev & DONE) && !MARKED(prev) -> word[t] = prev | PARKED
  fi
#ifndef BROKEN_PARK_AS_LOAD_AND_STORE
  }
#endif
  ;
#ifdef BROKEN_PARK_BEFORE_SAVE
  saved[t] = true;
#endif
  if
  :: (prev & DONE) || MARKED(prev) -> resume(t)
  :: else
  fi;
  prev = 0;
#ifdef MAY_STAY_PARKED
end_parked:
#endif
#ifdef BROKEN_WAKE_ON_THE_WORD
  d_step {
    runnable[t] || (word[t] & PHASE) != phase[t] -> runnable[t] = false; saved[t] = false
  }
#else
  d_step { runnable[t] -> runnable[t] = false; saved[t] = false }
#endif
}
