/* Everview in the browser: SQL, and views that stay up to date. One ES module, nothing else needed.

   import { connect } from "http://127.0.0.1:8080/everview.js";
   const db = connect("http://127.0.0.1:8080", { token });
   await db.sql("SELECT * FROM total");                       // { time, columns, rows }
   const stop = db.subscribe("total", ({ rows, time, changes }) => draw(rows));
   db.subscribe({ query: "SELECT count(*) AS n FROM sale" }, show, { granularity: 1 });

   64-bit integers and decimals are strings. A subscription that is cut off connects again and goes on where it was. */

export class EverviewError extends Error {
  constructor({ code, message, hint, line, column }) {
    super(hint ? `[${code}] ${message} (${hint})` : `[${code}] ${message}`);
    Object.assign(this, { code, hint, line, column });
  }
}

export function connect(address = globalThis.location?.origin, { token = "" } = {}) {
  return new Database(address.replace(/^everview/, "http").replace(/\/$/, ""), token);
}

class Database {
  constructor(address, token) {
    this.address = address;
    this.token = token;
  }

  async request(path, { method = "GET", body, type = "application/json", headers = {} } = {}) {
    const all = { ...headers };
    if (this.token) all.authorization = `Bearer ${this.token}`;
    if (body !== undefined) all["content-type"] = type;
    const answer = await fetch(this.address + path, { method, body, headers: all });
    const said = await answer.json();
    if (said.error) throw new EverviewError(said.error);
    return said;
  }

  sql(text) {
    return this.request("/v1/sql", { method: "POST", body: JSON.stringify({ sql: text }) });
  }

  transaction(statements) {
    return this.request("/v1/transaction", { method: "POST", body: JSON.stringify({ statements }) });
  }

  datalog(program) {
    return this.request("/v1/datalog", { method: "POST", body: JSON.stringify({ program }) });
  }

  relations() {
    return this.request("/v1/relations");
  }

  rows(name) {
    return this.request(`/v1/relations/${encodeURIComponent(name)}/rows`);
  }

  /* rows: objects or arrays; done once under a key, however often it is sent */
  push(table, rows, { op = "insert", key } = {}) {
    const body = rows.map((row) => JSON.stringify(row)).join("\n");
    const headers = key ? { "idempotency-key": key } : {};
    const path = `/v1/tables/${encodeURIComponent(table)}/rows?op=${op}`;
    return this.request(path, { method: "POST", body, type: "application/x-ndjson", headers });
  }

  /* what: a name, {query}, or a list of them, told together. told({rows, time, changes, reset}) or, of a list,
     told([...]). Returns a function that stops it. */
  subscribe(what, told, options = {}) {
    return new Following(this, what, told, options).begin();
  }
}

class Following {
  constructor(db, what, told, { granularity, failed = console.error, snapshot = true } = {}) {
    Object.assign(this, { db, told, granularity, failed, snapshot, many: Array.isArray(what), stopped: false, wait: 250 });
    this.parts = (this.many ? what : [what]).map((each, id) => ({
      id, ...(typeof each === "string" ? { view: each } : each), held: new Map(), columns: [], prefix: "",
    }));
    this.time = -1;
  }

  begin() {
    this.open();
    return () => {
      this.stopped = true;
      this.socket?.close();
    };
  }

  open() {
    const socket = (this.socket = new WebSocket(`${this.db.address.replace(/^http/, "ws")}/v1/ws`));
    const say = (message) => socket.send(JSON.stringify(message));
    socket.onopen = () => {
      const hello = { type: "hello", token: this.db.token };
      if (this.granularity !== undefined) hello.granularity = this.granularity;
      say(hello);
      const views = this.parts.map(({ id, view, query, prefix }) => ({
        id, ...(view ? { view } : { query }), snapshot: this.snapshot,
        ...(prefix && this.time >= 0 ? { resume: `${prefix}.${this.time}` } : {}),
      }));
      say({ type: "subscribe", views });
    };
    socket.onmessage = ({ data }) => this.heard(JSON.parse(data));
    socket.onclose = () => {
      if (this.stopped) return;
      setTimeout(() => this.stopped || this.open(), this.wait);
      this.wait = Math.min(this.wait * 2, 10_000);
    };
  }

  heard(message) {
    if (Array.isArray(message)) return this.commit(message);
    if (message.type === "error") {
      this.stopped = true;
      this.failed(new EverviewError(message.error));
      this.socket.close();
    } else if (message.type === "subscribed") {
      Object.assign(this.parts[message.id], { columns: message.columns, prefix: message.resume });
    }
  }

  commit(frames) {
    const changes = this.parts.map(() => []);
    const resets = this.parts.map(() => "");
    for (const frame of frames) {
      if (frame.type === "commit") this.time = frame.to;
      else if (frame.type === "end") this.failed(new EverviewError(frame.error));
      else {
        const { held } = this.parts[frame.id];
        if (frame.type === "snapshot") {
          held.clear();
          resets[frame.id] = frame.reset ?? "";
        }
        for (const [diff, ...row] of frame.rows) {
          const name = JSON.stringify(row);
          const count = (held.get(name)?.count ?? 0) + diff;
          if (count) held.set(name, { row, count });
          else held.delete(name);
          changes[frame.id].push([row, diff]);
        }
      }
    }
    this.wait = 250;
    const all = this.parts.map(({ held, columns }, id) => ({
      time: this.time, columns, changes: changes[id], reset: resets[id],
      get rows() {
        return [...held.values()].flatMap(({ row, count }) => Array(Math.max(count, 0)).fill(row));
      },
    }));
    if (frames.length > 1) this.told(this.many ? all : all[0]);
  }
}
