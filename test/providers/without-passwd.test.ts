/** Containers run as user ids that nobody has given a name or a home. */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';

const UID = 54_321;
/** Only root can become somebody else. */
const isRoot = process.getuid?.() === 0;

test.skipIf(!isRoot)(
  'without an entry among the users and without HOME: a command runs, an agent names what it misses',
  async () => {
    const fixture = fileURLToPath(new URL('../fixtures/without-passwd.ts', import.meta.url));
    const agent = "require('node:os').userInfo(); process.stdout.write('unreachable')";
    const { stdout } = await promisify(execFile)(process.execPath, ['--import', 'tsx', fixture, String(UID), agent], {
      timeout: 50_000,
    });
    expect(JSON.parse(stdout)).toEqual({
      nameless: true,
      text: `fine ${UID}`,
      agent: { code: 'PROVIDER_ERROR', message: expect.stringMatching(/exited with code 1(.|\n)*uv_os_get_passwd/) },
      cache: expect.stringContaining('HOLDFAST_CACHE_DIR'),
    });
  },
);
