/** docker-compose.yml and the Dockerfile as far as they can be checked without a container engine. */
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { readConfig } from '../../cli/config/read.js';
import { workerOptions } from '../../cli/config/worker-options.js';
import { VERSION } from '../../protocol/version.js';

interface Service {
  image: string;
  build?: string;
  depends_on?: Record<string, { condition: string }>;
  healthcheck?: { test?: string[]; disable?: boolean };
  volumes?: string[];
  restart?: string;
}

const path = (name: string): string => fileURLToPath(new URL(`../../${name}`, import.meta.url));
const text = (name: string): string => readFileSync(path(name), 'utf8');
const compose = parse(text('docker-compose.yml'), { merge: true }) as {
  services: Record<string, Service>;
  volumes: Record<string, unknown>;
};
const { services } = compose;

test('the services are a database, Temporal, its UI, the one-time set-up and a worker', () => {
  expect(Object.keys(services)).toEqual([
    'postgres',
    'temporal-schema',
    'temporal',
    'temporal-namespace',
    'holdfast-setup',
    'holdfast-worker',
    'temporal-ui',
  ]);
});

test('every image is pinned to a release, ours to this one', () => {
  for (const { image, build } of Object.values(services)) {
    expect(image).toMatch(/^[a-z0-9/-]+:\d+\.\d+(\.\d+)?(-[a-z0-9]+)?$/);
    if (build !== undefined) expect(image).toBe(`holdfast:${VERSION}`);
  }
  const temporal = [services.temporal, services['temporal-schema'], services['temporal-namespace']];
  expect(new Set(temporal.map((service) => service?.image.split(':')[1])).size).toBe(1);
  expect(text('Dockerfile')).toMatch(/^ARG NODE_IMAGE=node:22\.\d+\.\d+-[a-z]+-slim$/m);
  for (const [, image] of text('Dockerfile').matchAll(/^FROM (\S+)/gm)) expect(image).toBe('$' + '{NODE_IMAGE}');
});

test('each service waits for a service that there is, in a state that it can reach', () => {
  for (const { depends_on = {} } of Object.values(services))
    for (const [name, { condition }] of Object.entries(depends_on)) {
      const awaited = services[name]!;
      if (condition === 'service_healthy') expect(awaited.healthcheck?.test?.[0]).toMatch(/^CMD/);
      else expect([condition, awaited.restart]).toEqual(['service_completed_successfully', 'on-failure:5']);
    }
  expect(services['holdfast-worker']?.depends_on).toHaveProperty('holdfast-setup');
});

test('what is mounted is there, and the worker takes its configuration', async () => {
  const mounts = Object.values(services).flatMap(({ volumes = [] }) => volumes.map((volume) => volume.split(':')));
  for (const [source = ''] of mounts)
    expect(source.startsWith('./') ? existsSync(path(source)) : source in compose.volumes, source).toBe(true);
  expect(parse(text('docker/dynamic-config.yaml'))).toEqual({ 'frontend.namespaceCount': [{ value: 20_000 }] });
  const options = workerOptions(await readConfig(path('docker/holdfast.config.json')));
  expect(options.providers.map(({ manifest }) => manifest.id)).toEqual(['scripted']);
});

test('the image runs as a user of its own behind an init, and is built from what is in the context', () => {
  const dockerfile = text('Dockerfile');
  expect(dockerfile).toMatch(/^USER node$/m);
  expect(dockerfile).toMatch(/^ENTRYPOINT \["tini", "--", "node", "\/app\/dist\/cli\/main\.js"\]$/m);
  const context = text('.dockerignore').match(/(?<=^!).*/gm) ?? [];
  for (const name of context) expect(existsSync(path(name)), name).toBe(true);
  const { include } = JSON.parse(text('tsconfig.build.json')) as { include: string[] };
  for (const glob of include) expect(context).toContain(glob.split('/')[0]);
});
