/**
 * How a provider is made to do things. The kit knows no harness: for each thing that a check needs, the caller gives the
 * input and config with which this provider does it.
 */
import type { Json, JsonObject } from '../protocol/json.js';

/** Of a start request. */
export interface Scenario {
  readonly input?: Json;
  readonly config?: JsonObject;
}

export interface Scenarios {
  /** Says some text and succeeds, by itself, within seconds. */
  readonly text: Scenario & { /** Is in the final output. */ readonly says?: string };
  /** Goes on until it is stopped, and asks nobody anything. */
  readonly hang: Scenario;
  /** Fails by itself. */
  readonly fail?: Scenario & { /** Is in the error's message. */ readonly says?: string };
  /** Asks for one approval and then succeeds, whatever the answer is. Needed where `action.approval` is claimed. */
  readonly approval?: Scenario & {
    /** Is in the final output after a yes, and after a no. */
    readonly approved?: string;
    readonly rejected?: string;
  };
  /** Asks for one input and then succeeds. Needed where `action.input` is claimed. */
  readonly input?: Scenario & { /** Default `"blue"`. */ readonly answer?: Json; readonly says?: string };
  /** Makes at least one artifact and succeeds. Needed where `artifact.list` is claimed. */
  readonly artifact?: Scenario;
  /** Two turns of one conversation: the second shows that it knows the first. Needed where continuity is claimed. */
  readonly turns?: readonly [Scenario, Scenario & { readonly says: string }];
}
