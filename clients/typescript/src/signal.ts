/** Waiting for an event, with a time limit, and pauses between attempts. */

const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** Return the milliseconds of a clock that never jumps. */
export function now(): number {
  return performance.now();
}

/** Wakes everyone who waits. It has no memory: check the state before you wait. */
export class Signal {
  readonly #waiting = new Set<() => void>();

  notify(): void {
    for (const wake of [...this.#waiting]) {
      wake();
    }
  }

  /** Wait for the next `notify`, at most until `now()` reaches `ends`. */
  until(ends: number): Promise<void> {
    const restMs = Math.min(Math.max(ends - now(), 0), LONGEST_TIMER_MS);
    return new Promise((resolve) => {
      const wake = (): void => {
        clearTimeout(timer);
        this.#waiting.delete(wake);
        resolve();
      };
      const timer = setTimeout(wake, restMs);
      this.#waiting.add(wake);
    });
  }
}

/** Yield pauses forever. Each is twice as long as the one before, up to a limit. */
export function* growing(firstMs: number, longestMs: number): Generator<number, never> {
  for (let pauseMs = firstMs; ; pauseMs = Math.min(pauseMs * 2, longestMs)) {
    yield pauseMs;
  }
}

export function sleep(ms: number): Promise<void> {
  return new Signal().until(now() + ms);
}
