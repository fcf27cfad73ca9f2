/**
 * The runtime's files in the Cache API, where it exists: a host that forbids or forgets HTTP caching still sends them
 * once. Addresses are pinned to their contents, so an entry is never out of date; those of former versions are dropped.
 */

const prefix = (course: string): string => `raona-${course}-runtime-`;

export class KeptFiles {
  private constructor(private readonly cache: Cache | null) {}

  /** `version`: what the addresses are pinned to. Without a Cache API, or with none to be had, nothing is kept. */
  static async open(course: string, version: string): Promise<KeptFiles> {
    try {
      const name = prefix(course) + version;
      for (const former of await caches.keys()) {
        if (former.startsWith(prefix(course)) && former !== name) await caches.delete(former);
      }
      return new KeptFiles(await caches.open(name));
    } catch {
      // Plain http has no `caches`; some private windows refuse to open one.
      return new KeptFiles(null);
    }
  }

  async get(url: string): Promise<ArrayBuffer | null> {
    try {
      return (await (await this.cache?.match(url))?.arrayBuffer()) ?? null;
    } catch {
      return null;
    }
  }

  /** Keeps the bytes; a full disk only means that they will be fetched again. */
  async put(url: string, type: string, data: ArrayBuffer): Promise<void> {
    await this.cache?.put(url, new Response(data, { headers: { "content-type": type } })).catch(() => undefined);
  }
}
