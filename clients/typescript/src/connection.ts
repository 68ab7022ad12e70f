/**
 * A connection to the bus that reconnects in the background.
 *
 * Each attempt looks up the daemon's address again, because a restarted daemon may use another one.
 * Each attempt also creates a new connection. One that reconnects by itself would send buffered
 * messages, and a proposal sent that late must not be decided.
 */

import { randomBytes } from "node:crypto";

import { connect, errors, nkeyAuthenticator } from "@nats-io/transport-node";
import type { Msg, NatsConnection } from "@nats-io/transport-node";

import { ASK_TO_START, shown } from "./discovery.js";
import type { Endpoint } from "./discovery.js";
import { Down, KeyRejected, Lost, reasonOf, Unheard } from "./errors.js";
import type { Telemetry } from "./messages.js";
import { now, Signal } from "./signal.js";
import type { StopState } from "./stops.js";

const CONNECT_MS = 2000;
const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 2000;
const HEARTBEAT_MS = 30_000;
// A server that stops answering is detected after three intervals.
const PING_MS = 5000;
const MAX_UNREAD = 16;

/** An answer: a reply to this client, or a message `published` on the decision subject. */
export interface Heard {
  readonly data: Uint8Array;
  readonly published: boolean;
}

/** A bounded queue of the answers to one message. When it is full, new answers are dropped. */
export class Listener {
  readonly #heard: (Heard | Down)[] = [];
  readonly #arrived = new Signal();
  sent = false;

  constructor(readonly token: string) {}

  offer(heard: Heard | Down): void {
    if (this.#heard.length < MAX_UNREAD) {
      this.#heard.push(heard);
      this.#arrived.notify();
    }
  }

  /** Return the next answer, or undefined at `ends`. Throw `Down` if none can arrive. */
  async next(ends: number): Promise<Heard | undefined> {
    while (this.#heard.length === 0 && now() < ends) {
      await this.#arrived.until(ends);
    }
    const heard = this.#heard.shift();
    if (heard instanceof Down) {
      throw heard;
    }
    return heard;
  }
}

export class AgentConnection {
  readonly #inbox: string;
  readonly #listeners = new Map<string, Set<Listener>>();
  readonly #attempted = new Signal();
  readonly #wake = new Signal();
  #attempts = 0;
  #nats: NatsConnection | undefined;
  #down = new Down("not connected yet");
  #closed = false;
  /** The address of the last attempt, for error messages. */
  where = "the bus";
  /** True after the first answer on this connection. */
  answered = false;

  constructor(
    private readonly agent: string,
    private readonly prefix: string,
    private readonly lookUp: () => Endpoint,
    private readonly stops: StopState,
  ) {
    this.#inbox = `_INBOX.agent.${agent}.${randomBytes(12).toString("hex")}`;
  }

  /** Stay connected until `close`. Reconnect after a break, with a growing pause. */
  async run(): Promise<void> {
    let pauseMs = FIRST_PAUSE_MS;
    while (!this.#closed) {
      const nats = await this.#try();
      if (nats !== undefined) {
        await this.#watch(nats);
        pauseMs = FIRST_PAUSE_MS;
      } else if (!this.#closed) {
        await this.#wake.until(now() + pauseMs); // a call that needs the connection wakes it
        pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS);
      }
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#wake.notify();
    await this.#nats?.close();
  }

  /** Wait for the result of the attempt to connect that is under way, at most until `ends`. */
  async attempted(ends: number): Promise<void> {
    const before = this.#attempts;
    this.#wake.notify();
    while (this.#attempts === before && now() < ends) {
      await this.#attempted.until(ends);
    }
  }

  /** Return a listener for answers to `token`, from the inbox and the decision subject. */
  listen(token: string): Listener {
    const listener = new Listener(token);
    const same = this.#listeners.get(token) ?? new Set();
    this.#listeners.set(token, same.add(listener));
    return listener;
  }

  forget(listener: Listener): void {
    const same = this.#listeners.get(listener.token);
    same?.delete(listener);
    if (same?.size === 0) {
      this.#listeners.delete(listener.token);
    }
  }

  /** Publish one message and route its answers to `listener`, or throw `Down`. */
  async send(verb: string, payload: string, listener: Listener, ends: number): Promise<void> {
    if (!this.#connected()) {
      await this.attempted(ends);
    }
    const nats = this.#connected();
    if (nats === undefined) {
      throw this.#down;
    }
    listener.sent = true;
    this.#publish(nats, verb, payload, `${this.#inbox}.${listener.token}`);
  }

  #connected(): NatsConnection | undefined {
    return this.#nats?.isClosed() === false ? this.#nats : undefined;
  }

  #publish(nats: NatsConnection, verb: string, payload: string, reply?: string): void {
    try {
      const subject = `${this.prefix}.${verb}.${this.agent}`;
      nats.publish(subject, payload, reply === undefined ? {} : { reply });
    } catch (error) { // after any error, the message was not sent
      throw new Down(`cannot send to the bus at ${this.where} (${reasonOf(error)})`);
    }
  }

  async #try(): Promise<NatsConnection | undefined> {
    this.#nats = undefined;
    try {
      this.#nats = await this.#connect();
    } catch (error) {
      this.#down = error instanceof Down ? error : new Down(reasonOf(error));
    }
    this.#attempts += 1;
    this.#attempted.notify();
    return this.#nats;
  }

  /** Send heartbeats until the connection is lost. */
  async #watch(nats: NatsConnection): Promise<void> {
    const beat = setInterval(() => this.#beat(this.stops.heartbeat()), HEARTBEAT_MS);
    await nats.closed();
    clearInterval(beat);
    this.#nats = undefined;
    this.#down = new Down(`lost the connection to ${this.where}`);
    this.#offerAll(new Lost(this.#down.message));
  }

  #beat(heartbeat: Telemetry): void {
    const nats = this.#connected();
    try {
      if (nats !== undefined) {
        this.#publish(nats, "telemetry", JSON.stringify(heartbeat));
      }
    } catch {
      // The next heartbeat follows, or the connection is lost.
    }
  }

  async #connect(): Promise<NatsConnection> {
    this.answered = false;
    const endpoint = this.lookUp();
    this.where = shown(endpoint);
    const nats = await this.#open(endpoint);
    if (this.#closed) {
      await nats.close();
      throw new Down("the client is closed");
    }
    this.stops.reconnected();
    nats.subscribe(`${this.#inbox}.*`, { callback: (error, msg) => this.#heard(error, msg) });
    nats.subscribe(`${this.prefix}.decision.${this.agent}.*`, {
      callback: (error, msg) => this.#heard(error, msg),
    });
    nats.subscribe(`${this.prefix}.state.stop`, {
      callback: (error, msg) => this.#stop(error, msg),
    });
    void this.#watchErrors(nats);
    await nats.flush(); // from now on, every stop is received
    return nats;
  }

  async #open(endpoint: Endpoint): Promise<NatsConnection> {
    try {
      return await connect({
        servers: [...endpoint.servers],
        name: `agent ${this.agent}`,
        reconnect: false,
        timeout: CONNECT_MS,
        pingInterval: PING_MS,
        maxPingOut: 2,
        ignoreClusterUpdates: true,
        ...(endpoint.seed === undefined ? {} : { authenticator: authenticator(endpoint) }),
      });
    } catch (error) {
      throw this.#explained(endpoint, error);
    }
  }

  #explained(endpoint: Endpoint, error: unknown): Down {
    if (error instanceof Down) {
      return error;
    }
    if (error instanceof errors.AuthorizationError) {
      const { seed, keyFile } = endpoint;
      const key = seed === undefined ? "agents without a key" : `the key ${keyFile}`;
      const advice = `ask the operator to run \`safetyd agent add ${this.agent}\``;
      return new KeyRejected(`the bus at ${this.where} rejects ${key}; ${advice}`);
    }
    return new Down(`no safetyd answers at ${this.where} (${reasonOf(error)}); ${ASK_TO_START}`);
  }

  #heard(error: Error | null, msg: Msg): void {
    if (error !== null) {
      return;
    }
    const published = !msg.subject.startsWith(this.#inbox);
    let heard: Heard | Down = { data: msg.data, published };
    if (!published && msg.headers?.code === 503) {
      heard = new Unheard(`no safetyd listens at ${this.where}; ${ASK_TO_START}`);
    } else {
      this.answered = true;
    }
    const token = msg.subject.slice(msg.subject.lastIndexOf(".") + 1);
    for (const listener of this.#listeners.get(token) ?? []) {
      listener.offer(heard);
    }
  }

  #stop(error: Error | null, msg: Msg): void {
    // Without the header it is not from the daemon: a client can use this subject for replies.
    if (error === null && msg.headers?.get("Safetyd-Notice") === "1") {
      const heartbeat = this.stops.hear(msg.data);
      if (heartbeat !== undefined) {
        this.#beat(heartbeat);
      }
    }
  }

  async #watchErrors(nats: NatsConnection): Promise<void> {
    for await (const status of nats.status()) {
      const error = status.type === "error" ? status.error : undefined;
      if (error instanceof errors.PermissionViolationError && error.operation === "publish") {
        const why = `the bus at ${this.where} rejects the message`;
        const key = `use the key of agent ${this.agent}`;
        this.#offerAll(new KeyRejected(`${why}; ${key}, or run \`safetyd agent add\``));
      }
    }
  }

  #offerAll(down: Down): void {
    for (const listener of [...this.#listeners.values()].flatMap((same) => [...same])) {
      if (listener.sent) {
        listener.sent = false;
        listener.offer(down);
      }
    }
  }
}

function authenticator(endpoint: Endpoint): ReturnType<typeof nkeyAuthenticator> {
  const authenticate = nkeyAuthenticator(new TextEncoder().encode(endpoint.seed));
  try {
    authenticate("");
  } catch (error) {
    throw new KeyRejected(`the key file ${endpoint.keyFile} is damaged (${reasonOf(error)})`);
  }
  return authenticate;
}
