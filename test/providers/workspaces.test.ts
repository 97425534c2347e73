/** Turns of one conversation find the same files, and nothing outside of their folder is ever touched. */
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import type { Json } from '../../protocol/json.js';
import { type CommandOptions, commandProvider } from '../../providers/command/command.js';
import type { ConversationRef, ProviderHost } from '../../providers/provider.js';
import { Pace } from '../../providers/workspace/pace.js';
import { gitRemote } from '../support/git-remote.js';
import { eventually, testContext } from '../support/provider-context.js';
import { scratchFolder } from '../support/scratch.js';

type Workspace = NonNullable<CommandOptions['workspaces']>[string];

/** A conversation with `sh`: each turn runs its input as a script in the workspace. */
function shell(workspace: Workspace, root = scratchFolder('holdfast-root-'), more: Partial<CommandOptions> = {}) {
  const workspaceRoot = { path: root, ...more.workspaceRoot };
  const provider = commandProvider({
    commands: {
      sh: { command: '/bin/sh', args: ['-e'], output: 'text', workspace: 'w', passEnv: ['PATH'] },
    },
    workspaces: { w: workspace },
    ...more,
    workspaceRoot,
  });
  const sessions = new Map<string, Json>();
  let turns = 0;
  const turn = async (input: string, conversationId = 'conv_a') => {
    const session = sessions.get(conversationId);
    turns += 1;
    const executionId = `exec_${turns}`;
    const ctx = testContext(provider, {
      input,
      executionId,
      conversationId,
      ...(session === undefined ? {} : { session }),
    });
    const error = await provider.run(ctx).then(
      () => undefined,
      (thrown: unknown) => thrown as Error & { code: string },
    );
    const kept = ctx.sessions.at(-1);
    if (kept !== undefined) sessions.set(conversationId, kept);
    return { ctx, text: ctx.text, error };
  };
  const files = (conversationId = 'conv_a') => join(root, 'w', `default.${conversationId}`, 'files');
  return { provider, root, turn, files, sessions };
}

/** A host that says these conversations are closed. */
function host(closed: readonly string[]): ProviderHost & { readonly asked: ConversationRef[] } {
  const asked: ConversationRef[] = [];
  return {
    asked,
    log: () => {},
    closedConversations: async (conversations) => {
      asked.push(...conversations);
      return conversations.filter(({ id }) => closed.includes(id));
    },
  };
}

const scratch = { kind: 'scratch' } as const;

describe('a scratch workspace', () => {
  test('is the same for all turns of a conversation, and another for each conversation', async () => {
    const it = shell(scratch);
    expect(it.provider.manifest.capabilities['conversation.continuity']).toBe('degraded');
    await it.turn('echo one > notes');
    await it.turn('echo two >> notes');
    expect((await it.turn('cat notes')).text).toBe('one\ntwo\n');
    expect((await it.turn('ls', 'conv_b')).text).toBe('');
    expect(readFileSync(join(it.files(), 'notes'), 'utf8')).toBe('one\ntwo\n');
  });

  test('is found by another worker of the same host', async () => {
    const first = shell(scratch);
    await first.turn('echo one > notes');
    const second = shell(scratch, first.root);
    second.sessions.set('conv_a', first.sessions.get('conv_a') as Json);
    expect((await second.turn('cat notes')).text).toBe('one\n');
  });

  test('says how much it holds', async () => {
    const { ctx } = await shell({ kind: 'scratch', maxBytes: 10_000_000 }).turn('head -c 100000 /dev/zero > big');
    const [used] = ctx.native('workspace.used');
    expect(used).toMatchObject({ workspace: 'w', maxBytes: 10_000_000, files: expect.any(Number) });
    expect(used?.bytes).toBeGreaterThanOrEqual(100_000);
  });
});

describe('on another host, a conversation', () => {
  test('fails clearly when that has another root, or when its files are gone', async () => {
    const first = shell(scratch);
    await first.turn('echo one > notes');
    const other = shell(scratch);
    other.sessions.set('conv_a', first.sessions.get('conv_a') as Json);
    const elsewhere = await other.turn('cat notes');
    expect(elsewhere.error).toMatchObject({
      code: 'PROVIDER_ERROR',
      message: expect.stringMatching(/workspace "w".* in the root "host-.*this worker has "host-.*sharedAs/),
    });
    expect(elsewhere.ctx.native('workspace.elsewhere')).toMatchObject([{ workspace: 'w', root: expect.any(String) }]);
    expect(existsSync(other.files())).toBe(false);

    rmSync(join(first.root, 'w', 'default.conv_a'), { recursive: true });
    expect((await first.turn('cat notes')).error).toMatchObject({
      code: 'PROVIDER_ERROR',
      message: expect.stringMatching(/files of this conversation in workspace "w" are gone/),
    });
  });

  test('goes on where the root is shared, which is checked at the start', async () => {
    const root = scratchFolder();
    const shared = () => shell(scratch, root, { workspaceRoot: { path: root, sharedAs: 'shop-1' } });
    const begin = () => shared().provider.start?.(host([]));
    await expect(begin()).rejects.toMatchObject({
      code: 'VALIDATION_ERROR',
      message: expect.stringMatching(/holds no \.holdfast-root: is the shared folder mounted\?.*echo shop-1 >/),
    });
    writeFileSync(join(root, '.holdfast-root'), 'shop-2\n');
    await expect(begin()).rejects.toThrow(/is the root "shop-2" and not "shop-1"/);
    writeFileSync(join(root, '.holdfast-root'), 'shop-1\n');
    const end = await begin();
    await end?.();
    const [one, two] = [shared(), shared()];
    await one.turn('echo one > notes');
    two.sessions.set('conv_a', one.sessions.get('conv_a') as Json);
    expect((await two.turn('cat notes')).text).toBe('one\n');
  });
});

describe('a workspace that grows', () => {
  test('over its bound ends the turn that does it, and refuses the next', async () => {
    const it = shell({ kind: 'scratch', maxBytes: 1_000_000 }, undefined, {
      workspaceRoot: { path: scratchFolder(), measureMs: 100 },
    });
    const { error } = await it.turn('head -c 3000000 /dev/zero > big; sleep 30');
    expect(error).toMatchObject({
      code: 'QUOTA_EXCEEDED',
      message: expect.stringMatching(/"w".*1000000 \(maxBytes\)/),
    });
    expect((await it.turn('true')).error).toMatchObject({ code: 'QUOTA_EXCEEDED' });
    expect((await it.turn('true', 'conv_b')).error).toBeUndefined();
  });

  test('in files is bounded too, and so are all together', async () => {
    const many = shell({ kind: 'scratch', maxFiles: 50 });
    const grown = await many.turn('for i in $(seq 100); do : > f$i; done');
    expect(grown.error).toMatchObject({ code: 'QUOTA_EXCEEDED' });
    expect(grown.ctx.native('workspace.used')).toHaveLength(1);
    expect((await many.turn('true')).error?.message).toMatch(/files; the limit is 50 \(maxFiles\)/);
    const root = scratchFolder();
    const it = shell(scratch, root, { workspaceRoot: { path: root, maxTotalBytes: 200_000 } });
    await it.turn('head -c 300000 /dev/zero > big');
    expect((await it.turn('true', 'conv_b')).error).toMatchObject({
      code: 'QUOTA_EXCEEDED',
      message: expect.stringMatching(/maxTotalBytes.*Close conversations/),
    });
    expect((await it.turn('true')).error).toBeUndefined();
  });

  test('leaves the room on the disk that it has to', async () => {
    const root = scratchFolder();
    const it = shell(scratch, root, { workspaceRoot: { path: root, minFreeBytes: 2 ** 50 } });
    const { error, text } = await it.turn('echo ran');
    expect(error).toMatchObject({
      code: 'QUOTA_EXCEEDED',
      message: expect.stringMatching(/1125899906842624 have to be \(workspaceRoot\.minFreeBytes\)/),
    });
    expect(text).toBe('');
    expect(existsSync(it.files())).toBe(false);
  });

  test('is looked at sooner the faster it grows, and never for more than a tenth of the time', () => {
    const wait = (grownBy: number, ms: number, took = 0) => {
      const begun = performance.now() + ms;
      return new Pace(5000, 10_000_000, 0).next(begun - took, grownBy);
    };
    expect(wait(0, 1000)).toBe(5000);
    expect(wait(1000, 1000)).toBe(5000);
    // A megabyte a second, and nine to go.
    expect(wait(1_000_000, 1000)).toBeGreaterThan(4000);
    expect(wait(1_000_000, 1000)).toBeLessThan(4600);
    expect(wait(9_900_000, 1000)).toBe(100);
    const slow = new Pace(5000, 10_000_000, 0);
    expect(slow.next(performance.now() - 2000, 0)).toBeGreaterThanOrEqual(20_000);
    // What cannot be measured is tried again.
    expect(slow.next(performance.now(), undefined)).toBe(5000);
  });
});

describe('closing a conversation', () => {
  test('removes its patches from the root and no others, also when its files are gone already', async () => {
    const root = scratchFolder();
    const remote = gitRemote({ 'a.txt': 'one\n' });
    const it = shell({ kind: 'git', remote: remote.path }, root, { workspaceRoot: { path: root, sweepMs: 50 } });
    for (const id of ['conv_a', 'conv_a', 'conv_b']) await it.turn('date +%N >> a.txt', id);
    const patches = join(root, '.patches');
    for (const name of ['mine.patch', 'x.default.conv_a.exec_1.patch']) writeFileSync(join(patches, name), 'x');
    expect(readdirSync(patches)).toHaveLength(5);
    rmSync(join(root, 'w', 'default.conv_a'), { recursive: true });
    const end = await it.provider.start?.(host(['conv_a']));
    await eventually(() => readdirSync(patches).length === 3, 20_000);
    await end?.();
    expect(readdirSync(patches).sort()).toEqual([
      'mine.patch',
      'w.default.conv_b.exec_3.patch',
      'x.default.conv_a.exec_1.patch',
    ]);
    // They count for all together.
    const full = shell(scratch, root, { workspaceRoot: { path: root, maxTotalBytes: 1_000_000 } });
    writeFileSync(join(patches, 'w.default.conv_b.exec_9.patch'), Buffer.alloc(2_000_000, 'x'));
    expect((await full.turn('true', 'conv_c')).error).toMatchObject({ code: 'QUOTA_EXCEEDED' });
  });

  test('leaves patches in a folder of the worker’s own there, for as many days as it says', async () => {
    const patchFolder = scratchFolder();
    const root = scratchFolder();
    const remote = gitRemote({ 'a.txt': 'one\n' });
    const it = shell({ kind: 'git', remote: remote.path, patchFolder, patchDays: 2 }, root, {
      workspaceRoot: { path: root, sweepMs: 50 },
    });
    await it.turn('date +%N >> a.txt');
    await it.turn('date +%N >> a.txt');
    const [old, fresh] = ['w.default.conv_a.exec_1.patch', 'w.default.conv_a.exec_2.patch'] as const;
    const others = ['mine.patch', 'v.default.conv_a.exec_1.patch', '.holdfast-AAAA.part', 'folder'] as const;
    for (const name of others.slice(0, 3)) writeFileSync(join(patchFolder, name), 'x');
    mkdirSync(join(patchFolder, 'folder'));
    const threeDaysAgo = Date.now() / 1000 - 3 * 24 * 3600;
    for (const name of [old, ...others]) utimesSync(join(patchFolder, name), threeDaysAgo, threeDaysAgo);
    const end = await it.provider.start?.(host(['conv_a']));
    await eventually(() => !existsSync(join(patchFolder, old)) && !existsSync(it.files()), 20_000);
    await end?.();
    expect(readdirSync(patchFolder).sort()).toEqual(['folder', 'mine.patch', 'v.default.conv_a.exec_1.patch', fresh]);
  });

  test('removes its files and no others, whatever links and locks are in them', async () => {
    const outside = scratchFolder();
    writeFileSync(join(outside, 'precious'), 'x');
    const root = scratchFolder();
    const it = shell(scratch, root, { workspaceRoot: { path: root, sweepMs: 50 } });
    await it.turn(
      `ln -s ${outside} out; ln -s ${outside}/precious file; mkdir -p deep/er; : > deep/er/f; chmod 500 deep`,
    );
    await it.turn('echo stays > notes', 'conv_b');
    const end = await it.provider.start?.(host(['conv_a', 'conv_never']));
    await eventually(() => !existsSync(it.files()), 20_000);
    await eventually(() => readdirSync(join(root, '.removed')).length === 0, 20_000);
    await end?.();
    expect(readFileSync(join(it.files('conv_b'), 'notes'), 'utf8')).toBe('stays\n');
    expect(readFileSync(join(outside, 'precious'), 'utf8')).toBe('x');
  });

  test('removes nothing while it was in use just now, nor what only looks like a workspace', async () => {
    const root = scratchFolder();
    const it = shell(scratch, root);
    await it.turn('true');
    mkdirSync(join(root, 'mine', 'default.conv_a'), { recursive: true });
    const asked = host(['conv_a']);
    const end = await it.provider.start?.(asked);
    await eventually(() => asked.asked.length > 0);
    await end?.();
    expect(asked.asked).toEqual([{ tenant: 'default', id: 'conv_a' }]);
    expect([existsSync(it.files()), existsSync(join(root, 'mine', 'default.conv_a'))]).toEqual([true, true]);
  });

  test('never follows a link that was put in the place of a folder', async () => {
    const outside = scratchFolder();
    mkdirSync(join(outside, 'default.conv_a', 'files'), { recursive: true });
    writeFileSync(join(outside, 'default.conv_a', 'files', 'precious'), 'x');
    const root = scratchFolder();
    const it = shell(scratch, root, { workspaceRoot: { path: root, sweepMs: 50 } });
    await it.turn('true');
    renameSync(join(root, 'w'), join(root, 'moved'));
    symlinkSync(outside, join(root, 'w'));
    const warned: string[] = [];
    const end = await it.provider.start?.({ ...host(['conv_a']), log: (_, message) => void warned.push(message) });
    await eventually(() => warned.length > 0);
    await end?.();
    expect((await it.turn('ls')).error).toMatchObject({ code: 'PROVIDER_ERROR' });
    expect(readFileSync(join(outside, 'default.conv_a', 'files', 'precious'), 'utf8')).toBe('x');
  });
});

describe('a hostile turn', () => {
  test('that puts a link in the place of its folder gets no further turn in it', async () => {
    const outside = scratchFolder();
    const it = shell(scratch);
    await it.turn(`cd ..; mv files moved; ln -s ${outside} files`);
    const { error } = await it.turn('echo x > written');
    expect(error).toMatchObject({ code: 'PROVIDER_ERROR', message: expect.stringMatching(/replaced by a link/) });
    expect(readdirSync(outside)).toEqual([]);
  });

  test('that puts a link in the place of our record changes nothing elsewhere', async () => {
    const outside = scratchFolder();
    writeFileSync(join(outside, 'precious'), 'x');
    const it = shell(scratch);
    await it.turn(`rm ../holdfast.json; ln -s ${outside}/precious ../holdfast.json`);
    await it.turn('true');
    expect(readFileSync(join(outside, 'precious'), 'utf8')).toBe('x');
  });

  test.each(['../x', 'a/b', '..', '', 'a b', 'conv_a\n'])('cannot name its conversation %j', async (id) => {
    const it = shell(scratch);
    expect((await it.turn('true', id)).error).toBeDefined();
    expect(readdirSync(it.root).flatMap((name) => (name === 'w' ? readdirSync(join(it.root, 'w')) : []))).toEqual([]);
  });
});

describe('a git workspace', () => {
  const FILES = { 'README.md': 'one\n', 'src/a.txt': 'a\n', '.gitignore': 'build/\n' };
  const over = (more: Partial<Extract<Workspace, { kind: 'git' }>> = {}, files: Record<string, string> = FILES) => {
    const remote = gitRemote(files);
    const patchFolder = scratchFolder('holdfast-patches-');
    const it = shell({ kind: 'git', remote: remote.path, ref: 'main', patchFolder, ...more });
    return { ...it, remote, patchFolder };
  };

  test('is checked out once, and each turn says what it changed', async () => {
    const it = over();
    const first = await it.turn('cat README.md; echo two >> README.md; mkdir build; echo x > build/out');
    expect(first.text).toBe('one\n');
    expect(first.ctx.artifacts).toMatchObject([
      {
        name: 'changes.patch',
        mediaType: 'text/x-diff',
        metadata: {
          kind: 'git.change',
          workspace: 'w',
          files: 1,
          insertions: 1,
          deletions: 0,
          changed: [{ path: 'README.md', insertions: 1, deletions: 0 }],
          sinceBase: { files: 1, insertions: 1, deletions: 0 },
          sha256: expect.stringMatching(/^[0-9a-f]{64}$/),
        },
      },
    ]);
    const second = await it.turn('git log --oneline | wc -l; rm src/a.txt; printf "\\000" > data.bin');
    expect(second.text.trim()).toBe('1');
    expect(second.ctx.artifacts[0]?.metadata).toMatchObject({
      changed: [{ path: 'data.bin' }, { path: 'src/a.txt', insertions: 0, deletions: 1 }],
      sinceBase: { files: 3, insertions: 1, deletions: 1 },
    });
    expect((await it.turn('ls build')).ctx.artifacts).toEqual([]);

    // The patches, one after the other, make of the remote's files the agent's.
    const clone = scratchFolder();
    execFileSync('git', ['clone', '--quiet', it.remote.path, clone]);
    for (const { ctx } of [first, second])
      execFileSync('git', ['apply', fileURLToPath(ctx.artifacts[0]?.uri ?? '')], { cwd: clone });
    expect(readFileSync(join(clone, 'README.md'), 'utf8')).toBe('one\ntwo\n');
    expect(existsSync(join(clone, 'src', 'a.txt'))).toBe(false);
    expect(readFileSync(join(clone, 'data.bin'))).toEqual(Buffer.from([0]));
  });

  test('sees what the agent committed by itself, and a turn that failed is in the next one', async () => {
    const it = over();
    const git = 'git -c user.name=x -c user.email=x@x';
    const { ctx } = await it.turn(`echo two > new; git add new; ${git} commit -qm new`);
    expect(ctx.artifacts[0]?.metadata).toMatchObject({ changed: [{ path: 'new', insertions: 1 }] });
  });

  test('pushes a branch where that is wanted, and says so when it cannot', async () => {
    const it = over({ pushBranch: 'agents/' });
    await it.turn('echo two >> README.md');
    const { ctx } = await it.turn('echo three >> README.md');
    expect(ctx.artifacts[0]?.metadata).toMatchObject({ branch: { name: 'agents/conv_a', pushed: true } });
    expect(it.remote.git('show', 'agents/conv_a:README.md')).toBe('one\ntwo\nthree\n');
    expect(it.remote.git('rev-list', '--count', 'main..agents/conv_a').trim()).toBe('2');
    // Somebody else's work on the branch is not pushed over.
    it.remote.git('update-ref', 'refs/heads/agents/conv_a', 'main');
    renameSync(it.remote.path, `${it.remote.path}.away`);
    const failed = await it.turn('echo four >> README.md');
    expect(failed.error).toBeUndefined();
    expect(failed.ctx.native('workspace.push_failed')).toMatchObject([{ branch: 'agents/conv_a' }]);
    expect(failed.ctx.artifacts[0]?.metadata).toMatchObject({ branch: { pushed: false } });
  });

  test('that is too large for a patch keeps the figures', async () => {
    const it = over({ maxPatchBytes: 1000 });
    const { ctx } = await it.turn('seq 10000 > large');
    expect(ctx.artifacts[0]).toMatchObject({
      metadata: { insertions: 10_000, patch: 'over 1000 bytes (maxPatchBytes)' },
    });
    expect(ctx.artifacts[0]?.uri).toBeUndefined();
    expect(readdirSync(it.patchFolder)).toEqual([]);
  });

  test('runs nothing that the agent configured in its repository, or in ours', async () => {
    const proof = join(scratchFolder(), 'proof');
    const script = `#!/bin/sh\necho "$0 $PWD" >> ${proof}\ncat\n`;
    const it = over({ pushBranch: 'agents/' });
    const { error } = await it.turn(`
      cat > ../evil <<'EOF'\n${script}EOF
      chmod +x ../evil; evil=$(cd ..; pwd)/evil
      git init -q nested; echo x > nested/file
      for repository in . nested ../repo.git; do (
        cd $repository
        git config core.fsmonitor $evil; git config diff.external $evil; git config core.hooksPath $(dirname $evil)/hooks
        git config filter.evil.clean $evil; git config filter.evil.process $evil; git config diff.evil.textconv $evil
        git config core.sshCommand $evil; git config core.pager $evil; git config gpg.program $evil
        git config commit.gpgsign true; git config uploadpack.packObjectsHook $evil
      ); done
      mkdir ../hooks; for hook in pre-commit post-commit pre-push post-checkout post-index-change reference-transaction
      do cp ../evil ../hooks/$hook; cp ../evil ../repo.git/$hook; done
      rm -f ${proof}
      echo '* filter=evil diff=evil' > .gitattributes; echo two >> README.md
    `);
    expect(error).toBeUndefined();
    await it.turn('echo three >> README.md');
    expect(existsSync(proof) ? readFileSync(proof, 'utf8') : '').toBe('');
    expect(it.remote.git('show', 'agents/conv_a:README.md')).toBe('one\ntwo\nthree\n');
  });

  test('reads no other configuration in the place of ours, also when it pushes', async () => {
    const proof = join(scratchFolder(), 'proof');
    const it = over({ pushBranch: 'agents/' });
    const { error } = await it.turn(`
      printf '#!/bin/sh\\ntouch ${proof}\\ncat\\n' > ../evil; chmod +x ../evil; evil=$(cd ..; pwd)/evil
      cp -r ../repo.git ../other
      for key in filter.evil.clean core.sshCommand credential.helper; do git config -f ../other/config $key $evil; done
      cp ../other/config ../repo.git/config.worktree
      (cd ../other; pwd) > ../repo.git/commondir
      echo '* filter=evil' > .gitattributes; echo two >> README.md
    `);
    expect(error).toBeUndefined();
    expect(existsSync(proof)).toBe(false);
    expect(it.remote.git('show', 'agents/conv_a:README.md')).toBe('one\ntwo\n');
  });

  test.each(['objects', 'refs', 'objects/info'])(
    'writes nothing where a link in the place of our %s leads',
    async (part) => {
      const outside = scratchFolder();
      const it = over();
      const { error } = await it.turn(
        `cp -r ../repo.git/${part}/. ${outside}; rm -rf ../repo.git/${part}; ln -s ${outside} ../repo.git/${part}
       find ${outside} | sort > before; echo two >> README.md`,
      );
      expect(error).toMatchObject({ code: 'PROVIDER_ERROR', message: expect.stringContaining('replaced by a link') });
      const found = execFileSync('find', [outside], { encoding: 'utf8' }).trim().split('\n').sort();
      expect(found).toEqual(readFileSync(join(it.files(), 'before'), 'utf8').trim().split('\n').sort());
    },
  );

  test('follows no link: what it leads to is in no patch', async () => {
    const outside = scratchFolder();
    writeFileSync(join(outside, 'secret'), 'not yours');
    const it = over();
    const { ctx } = await it.turn(`ln -s ${outside}/secret link; rm -r src; ln -s ${outside} src`);
    const patch = readFileSync(fileURLToPath(ctx.artifacts[0]?.uri ?? ''), 'utf8');
    expect(patch).toContain(`${outside}/secret`);
    expect(patch).not.toContain('not yours');
  });

  test('that cannot be fetched fails the turn with git’s own words, and is made anew by the next', async () => {
    const it = over();
    renameSync(it.remote.path, `${it.remote.path}.away`);
    expect((await it.turn('ls')).error).toMatchObject({
      code: 'PROVIDER_ERROR',
      message: expect.stringMatching(/^git fetch ended with 128: .*does not (?:appear|exist)/s),
    });
    renameSync(`${it.remote.path}.away`, it.remote.path);
    expect((await it.turn('cat README.md')).text).toBe('one\n');
  });
});

describe('the configuration', () => {
  const of =
    (workspace: unknown, workspaceRoot: unknown = { path: '/srv/root' }) =>
    () =>
      commandProvider({
        commands: { sh: { command: 'sh', output: 'text', workspace: 'w' } },
        workspaces: { w: workspace as Workspace },
        ...(workspaceRoot === null ? {} : { workspaceRoot: workspaceRoot as { path: string } }),
      });
  const git = { kind: 'git', remote: 'https://git.example/shop.git' };

  test.each([
    [scratch, null, /workspaces\.w: kind "scratch" needs "workspaceRoot"/],
    ['here', undefined, /workspaces\.w: must be an absolute path/],
    [{ kind: 'folder', path: 'here' }, undefined, /workspaces\.w\.path: must be an absolute path/],
    [{ kind: 'tmp' }, undefined, /workspaces\.w: kind: /],
    [{ ...git, remote: 'https://me:pw@git.example/x' }, undefined, /remote: must not hold a password/],
    [{ ...git, remote: 'ext::sh -c id' }, undefined, /remote: must be an https/],
    [{ ...git, remote: '--upload-pack=id' }, undefined, /remote: must be an https/],
    [{ ...git, remote: 'me@host:-x' }, undefined, /remote: must be an https/],
    [{ ...git, ref: '--help' }, undefined, /ref: must be a branch/],
    [{ ...git, ref: 'a..b' }, undefined, /ref: must be a branch/],
    [{ ...git, pushBranch: '-x/' }, undefined, /pushBranch: must be a branch/],
    [{ ...git, branch: 'x' }, undefined, /"branch"/],
    [scratch, { path: 'here' }, /workspaceRoot\.path: must be an absolute path/],
  ])('refuses %j with root %j and names the place', (workspace, root, message) => {
    expect(of(workspace, root)).toThrow(expect.objectContaining({ code: 'VALIDATION_ERROR' }));
    expect(of(workspace, root)).toThrow(message);
  });

  test.each([
    'https://git.example/shop.git',
    'ssh://git@git.example/shop',
    'git@git.example:team/shop.git',
    '/srv/shop.git',
  ])('takes the remote %j', (remote) => expect(of({ ...git, remote })).not.toThrow());
});

test('a folder is shared by all conversations, and kept workspaces go with turns only', async () => {
  const folder = scratchFolder();
  chmodSync(folder, 0o700);
  const it = shell({ kind: 'folder', path: folder });
  expect(it.provider.manifest.capabilities['conversation.continuity']).toBe('unsupported');
  await it.turn('echo one > notes');
  expect((await it.turn('cat notes', 'conv_b')).text).toBe('one\n');
});
