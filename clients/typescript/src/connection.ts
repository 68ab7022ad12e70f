/**
 * A connection to the bus that reconnects in the background.
 *
 * Each attempt looks up the daemon's address again, because a restarted daemon may use another one.
 * Each attempt also creates a new connection for each server. One that reconnects by itself would send buffered
 * messages, and a proposal sent that late must not be decided.
 */

import { randomBytes } from "node:crypto";

import { connect, errors, nkeyAuthenticator } from "@nats-io/transport-node";
import type { Msg, NatsConnection } from "@nats-io/transport-node";

import { ASK_TO_START, shown } from "./discovery.js";
import type { Endpoint } from "./discovery.js";
import { Down, KeyRejected, Lost, NotNow, reasonOf, Unheard } from "./errors.js";
import type { Telemetry } from "./messages.js";
import { firstOf, shuffled } from "./server_race.js";
import { growing, now, Signal, sleep } from "./signal.js";
import type { StopState } from "./stops.js";

const CONNECT_MS = 2000;
const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 2000;
const HEARTBEAT_MS = 30_000;
// A server that stops answering is detected after three intervals.
const PING_MS = 5000;
// If there are other servers, a call without an answer checks the server with this patience.
const PONG_MS = 1000;
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
  #endpoint: Endpoint | undefined;
  #checking = false;
  /** The address of the last attempt, for error messages. */
  where = "the bus";
  /** True after the first answer on this connection. */
  answered = false;
  /** True if another daemon can take over. */
  clustered = false;

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
    let pauses = growing(FIRST_PAUSE_MS, LONGEST_PAUSE_MS);
    while (!this.#closed) {
      const nats = await this.#try();
      if (nats !== undefined) {
        await this.#watch(nats);
        pauses = growing(FIRST_PAUSE_MS, LONGEST_PAUSE_MS);
      } else if (!this.#closed) {
        const pauseMs = pauses.next().value;
        await this.#wake.until(now() + pauseMs); // a call that needs the connection wakes it
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

  /**
   * Return true if a message that failed should be sent again until its deadline. On a cluster,
   * another daemon takes over within seconds.
   */
  retries(down: Down): boolean {
    if (down instanceof NotNow) {
      this.clustered = true; // only daemons that can be replaced say so
    }
    return this.clustered && !(down instanceof KeyRejected);
  }

  /** Check the server in the background. If it does not answer, connect to another one. */
  doubt(): void {
    const nats = this.#connected();
    if (nats !== undefined && !this.#checking && (this.#endpoint?.servers.length ?? 0) > 1) {
      this.#checking = true;
      void this.#check(nats).finally(() => { this.#checking = false; });
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

  async #check(nats: NatsConnection): Promise<void> {
    const alive = nats.rtt().then(() => true, () => false);
    const silent = sleep(PONG_MS).then(() => false);
    if (!(await Promise.race([alive, silent]))) {
      await nats.close();
    }
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
    const endpoint = this.#endpoint = this.#found();
    this.where = shown(endpoint);
    this.clustered ||= endpoint.servers.length > 1;
    const nats = await this.#opened(endpoint);
    if (this.#closed) {
      await nats.close();
      throw new Down("the client is closed");
    }
    this.clustered = endpoint.servers.length > 1 || Boolean(nats.info?.cluster);
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

  /**
   * Return the address. On a cluster, return the last one if there is none any more: a daemon that
   * stops removes its address, but the servers of a cluster continue.
   */
  #found(): Endpoint {
    try {
      return this.lookUp();
    } catch (error) {
      if (error instanceof KeyRejected || this.#endpoint === undefined || !this.clustered) {
        throw error;
      }
      return this.#endpoint;
    }
  }

  #opened(endpoint: Endpoint): Promise<NatsConnection> {
    const close = (late: NatsConnection): void => void late.close();
    return firstOf(shuffled(endpoint.servers), (server) => this.#open(endpoint, server), close);
  }

  async #open(endpoint: Endpoint, server: string): Promise<NatsConnection> {
    try {
      return await connect({
        servers: server,
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
