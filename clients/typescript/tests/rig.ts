/** Real daemons and servers for tests. `safetyd` and `nats-server` must be on the PATH. */

import { execFile, spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);
const READY_MS = 60_000;

/** The safetyd repository. The tests run from `dist/tests`. */
export const DOCS = new URL("../../../../docs/", import.meta.url);

/** Start a program and wait until it prints `ready`; return it with what it printed. */
async function started(
  command: string, options: string[], stream: "stdout" | "stderr", ready: string,
): Promise<{ process: ChildProcess; said: string }> {
  const process = spawn(command, options, { stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  let other = "";
  process[stream === "stdout" ? "stderr" : "stdout"]?.on("data", (data) => { other += data; });
  await new Promise<void>((resolve, reject) => {
    const fail = (why: unknown): void => reject(new Error(`${command}: ${why}\n${said}${other}`));
    const timer = setTimeout(() => fail("not ready in time"), READY_MS);
    process.on("error", fail);
    process.on("exit", fail);
    process[stream]?.on("data", (data) => {
      said += data;
      if (said.includes(ready)) {
        clearTimeout(timer);
        process.off("exit", fail);
        resolve();
      }
    });
  });
  return { process, said };
}

async function ended(process: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (process.exitCode === null && process.signalCode === null) {
    const exit = new Promise((resolve) => process.once("exit", resolve));
    process.kill(signal);
    await exit;
  }
}

/** `safetyd run` on a directory of its own. */
export class Daemon {
  readonly directory = mkdtempSync(join(tmpdir(), "safetyd-ts-"));
  readonly dataDir = join(this.directory, "data");
  #process: ChildProcess | undefined;

  static async start(): Promise<Daemon> {
    const daemon = new Daemon();
    writeFileSync(join(daemon.directory, "safetyd.toml"), "[web]\nport = 0\n");
    await daemon.start();
    return daemon;
  }

  async start(): Promise<void> {
    const config = join(this.directory, "safetyd.toml");
    const options = ["run", "--config", config, "--data-dir", this.dataDir];
    this.#process = (await started("safetyd", options, "stdout", "Ctrl-C")).process;
  }

  async stop(): Promise<void> {
    if (this.#process !== undefined) {
      await ended(this.#process, "SIGTERM");
    }
  }

  async remove(): Promise<void> {
    await this.stop();
    rmSync(this.directory, { recursive: true, force: true });
  }

  /** Run a command of the operator; return what it prints. */
  async operator(...command: string[]): Promise<string> {
    return (await run("safetyd", [...command, "--data-dir", this.dataDir])).stdout;
  }

  /** Return the journalled events of a kind, such as `reported`, about an agent. */
  events(kind: string, agent: string): Record<string, unknown>[] {
    const audit = join(this.dataDir, "audit");
    return readdirSync(audit).sort()
      .flatMap((name) => readFileSync(join(audit, name), "utf8").trim().split("\n"))
      .map((line) => JSON.parse(line) as Record<string, unknown>)
      .filter((event) => event["event"] === kind && event["agent"] === agent);
  }
}

/** A bare NATS server, for answers that no daemon would give. */
export class Bus {
  #process: ChildProcess | undefined;
  url = "";

  private constructor(readonly options: readonly string[]) {}

  static async start(...options: string[]): Promise<Bus> {
    const bus = new Bus(options);
    await bus.start();
    return bus;
  }

  /** Start a server that says that it belongs to a cluster. */
  static node(...options: string[]): Promise<Bus> {
    return Bus.start("--cluster_name", "safety", "--cluster", "nats://127.0.0.1:-1", ...options);
  }

  async start(): Promise<void> {
    const port = ["-a", "127.0.0.1", "-p", this.url ? this.url.split(":")[2]! : "-1"];
    const options = [...port, ...this.options];
    const { process, said } = await started("nats-server", options, "stderr", "Server is ready");
    this.#process = process;
    const found = /Listening for client connections on .*:(\d+)/.exec(said)?.[1];
    this.url = `nats://127.0.0.1:${found}`;
  }

  /** Freeze the server: it accepts connections and says nothing. */
  async freeze(): Promise<void> {
    this.#process?.kill("SIGSTOP");
    const stat = `/proc/${this.#process?.pid}/stat`;
    await until(() => readFileSync(stat, "utf8").includes(") T "));
  }

  thaw(): void {
    this.#process?.kill("SIGCONT");
  }

  async kill(): Promise<void> {
    if (this.#process !== undefined) {
      await ended(this.#process, "SIGKILL");
    }
  }
}

/** Wait until `found` returns something. */
export async function until<T>(found: () => T | Promise<T>): Promise<NonNullable<T>> {
  const ends = Date.now() + READY_MS;
  for (;;) {
    const value = await found();
    if (value) {
      return value;
    }
    if (Date.now() > ends) {
      throw new Error(`nothing found by ${found}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
