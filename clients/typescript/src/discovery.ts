/**
 * Find the daemon's address and the agent's key, and check the off switches.
 *
 * An option takes precedence over the environment, and the environment over the data directory.
 */

import { accessSync, constants, readFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";

import { Down, KeyRejected, reasonOf } from "./errors.js";
import { objectOf, read, text } from "./shape.js";

export const ASK_TO_START = "ask the operator to start safetyd"; // a model must not start it
const SWITCHES = ["SAFETYD_ENABLED", "AI_COMPANY_ENABLED"];
const OFF = new Set(["false", "0", "no", "off"]);

/** Where the daemon is. Every value has a default. */
export interface Place {
  /** The address of the bus. Default: `SAFETYD_URL`, then the running daemon's address. */
  url?: string;
  /** The agent's key. Default: `SAFETYD_KEY_FILE`, then `keys/agents/<agent>.nk`. */
  keyFile?: string;
  /** The data directory. Default: `SAFETYD_DATA_DIR`, then `~/.local/state/safetyd`. */
  dataDir?: string;
}

/** The address of a bus, and the key to connect with. Anonymous agents have no key. */
export interface Endpoint {
  readonly servers: readonly string[];
  readonly seed: string | undefined;
  readonly keyFile: string;
}

const announcement = objectOf<{ bus: string }>({ bus: text });

/** Return the reason if an environment variable switches agents off. */
export function disabled(): string | undefined {
  for (const name of SWITCHES) {
    const value = process.env[name] ?? "";
    if (OFF.has(value.trim().toLowerCase())) {
      return `disabled: ${name}=${value}`;
    }
  }
  return undefined;
}

/** Return the bus to connect to. Nothing is cached: a restarted daemon may use another port. */
export function find(agent: string, place: Place): Endpoint {
  const directory = place.dataDir || dataDirectory();
  const url = place.url || process.env["SAFETYD_URL"] || announced(directory);
  const servers = url.split(",").map((server) => server.trim());
  const named = place.keyFile || process.env["SAFETYD_KEY_FILE"];
  if (named) {
    return { servers, seed: seedIn(named, agent), keyFile: named };
  }
  const own = join(directory, "keys", "agents", `${agent}.nk`);
  if (readable(own)) {
    return { servers, seed: seedIn(own, agent), keyFile: own };
  }
  return { servers, seed: undefined, keyFile: "" };
}

/** Return the addresses without their passwords. */
export function shown(endpoint: Endpoint): string {
  return endpoint.servers.map((server) => server.replace(/^([^:]+:\/\/)?.*@/, "$1")).join(",");
}

function dataDirectory(): string {
  const unit = (process.env["STATE_DIRECTORY"] ?? "").split(":")[0];
  const state = process.env["XDG_STATE_HOME"] || join(homedir(), ".local", "state");
  return process.env["SAFETYD_DATA_DIR"] || unit || join(state, "safetyd");
}

function announced(directory: string): string {
  const path = join(directory, "endpoint.json");
  let data: Uint8Array;
  try {
    data = readFileSync(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") {
      throw new Down(`cannot read ${path} (${reasonOf(error)}); set SAFETYD_URL`);
    }
    const elsewhere = "if it uses another directory, set SAFETYD_DATA_DIR or SAFETYD_URL";
    throw new Down(
      `safetyd is not running: ${path} does not exist; ${elsewhere}, else ${ASK_TO_START}`,
    );
  }
  const found = read(data, announcement);
  if (found === undefined) {
    throw new Down(`${path} contains no bus address; restart safetyd or set SAFETYD_URL`);
  }
  return found.bus;
}

function seedIn(path: string, agent: string): string {
  const advice = `ask the operator to run \`safetyd agent add ${agent}\``;
  let seed: string;
  try {
    seed = readFileSync(path, "utf8").trim(); // the file ends with a line break
  } catch (error) {
    throw new KeyRejected(`cannot read the key file ${path} (${reasonOf(error)}); ${advice}`);
  }
  if (!seed.startsWith("SU")) {
    throw new KeyRejected(`the key file ${path} does not contain an nkey user seed; ${advice}`);
  }
  return seed;
}

function readable(path: string): boolean {
  try {
    accessSync(path, constants.R_OK);
    return true;
  } catch {
    return false;
  }
}
