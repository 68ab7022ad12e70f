/**
 * Connect to the first of several servers that answers.
 *
 * A frozen server accepts a connection and then says nothing. So each attempt gets only a head
 * start before the next one begins. Connections that come too late are closed.
 */

const HEAD_START_MS = 250;

/** Return the first result. If all attempts fail, throw the last error. */
export function firstOf<T>(
  servers: readonly string[],
  connect: (server: string) => Promise<T>,
  close: (late: T) => void,
): Promise<T> {
  return new Promise((resolve, reject) => {
    let begun = 0;
    let failed = 0;
    let found = false;
    let timer: NodeJS.Timeout | undefined;

    const next = (): void => {
      clearTimeout(timer);
      const server = servers[begun];
      if (found || server === undefined) {
        return;
      }
      begun += 1;
      timer = setTimeout(next, HEAD_START_MS);
      connect(server).then(win, lose);
    };
    const win = (result: T): void => {
      if (found) {
        close(result);
        return;
      }
      found = true;
      clearTimeout(timer);
      resolve(result);
    };
    const lose = (error: unknown): void => {
      failed += 1;
      if (failed === servers.length) {
        clearTimeout(timer);
        reject(error);
      } else {
        next();
      }
    };
    next();
  });
}

/** Return the servers in random order, so that clients spread over them. */
export function shuffled(servers: readonly string[]): string[] {
  return servers
    .map((server) => ({ server, key: Math.random() }))
    .sort((a, b) => a.key - b.key)
    .map(({ server }) => server);
}
