/* The wait word: the one definition that every model in this directory includes.
 *
 * Each task owns one word. `open` makes it claimable, `claim` succeeds at most once per opening,
 * and `commit` and `park` are read-modify-writes on it: whichever of the two comes second resumes
 * the task. A closed word is CLAIMED|DONE, so that claims fail between two suspensions.
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
 * The includer defines TASKS, and MAY_STAY_PARKED if a task parked for ever is a valid end.
 */
#define CLAIMED 1
#define DONE    2
#define PARKED  4
#define NOBODY  255

#ifdef BROKEN_BORN_OPEN
byte word[TASKS];
#else
byte word[TASKS] = CLAIMED | DONE;
#endif
byte winner[TASKS] = NOBODY;  /* written by the claimant alone, between its claim and its commit */
bool saved[TASKS];
bool runnable[TASKS];

inline lock(l) { atomic { !l -> l = true } }
inline unlock(l) { d_step { assert(l); l = false } }

inline open(t) { word[t] = 0 }
inline close(t) { word[t] = CLAIMED | DONE }

inline claim(t, ok) {
#ifdef BROKEN_CLAIM_AS_LOAD_AND_STORE
  ok = !(word[t] & CLAIMED);
  word[t] = word[t] | CLAIMED
#else
  d_step { ok = !(word[t] & CLAIMED); word[t] = word[t] | CLAIMED }
#endif
}

inline resume(t) { d_step { assert(saved[t] && !runnable[t]); runnable[t] = true } }

/* `prev` is a scratch variable of the caller, in commit and in suspend. */
inline commit(t, prev) {
#ifdef BROKEN_COMMIT_AS_LOAD_AND_STORE
  prev = word[t];
  word[t] = prev | DONE;
#else
  d_step { prev = word[t]; word[t] = word[t] | DONE };
#endif
  if
  :: prev & PARKED -> resume(t)
  :: else
  fi;
  prev = 0
}

inline suspend(t, prev) {
#ifndef BROKEN_PARK_BEFORE_SAVE
  saved[t] = true;
#endif
#ifdef BROKEN_PARK_AS_LOAD_AND_STORE
  prev = word[t];
  word[t] = prev | PARKED;
#else
  d_step { prev = word[t]; word[t] = word[t] | PARKED };
#endif
#ifdef BROKEN_PARK_BEFORE_SAVE
  saved[t] = true;
#endif
  if
  :: prev & DONE -> resume(t)
  :: else
  fi;
  prev = 0;
#ifdef MAY_STAY_PARKED
end_parked:
#endif
#ifdef BROKEN_WAKE_ON_DONE
  d_step { runnable[t] || (word[t] & DONE) -> runnable[t] = false; saved[t] = false }
#else
  d_step { runnable[t] -> runnable[t] = false; saved[t] = false }
#endif
}
