/** A descriptor of something an execution made. Holdfast never holds the bytes. */
import { z } from 'zod';
import { idSchema } from './ids.js';
import { jsonObject } from './json.js';

export const artifactSchema = z.strictObject({
  id: idSchema,
  executionId: idSchema,
  name: z.string().min(1).max(500),
  mediaType: z.string().min(1).max(200),
  createdAt: z.iso.datetime(),
  uri: z.string().min(1).max(2000).optional(),
  metadata: jsonObject,
});
export type Artifact = z.infer<typeof artifactSchema>;

/** What a provider hands in; id, time and metadata have defaults. */
export const artifactDescriptorSchema = artifactSchema
  .pick({ name: true, mediaType: true, uri: true })
  .extend({ id: idSchema.optional(), metadata: jsonObject.optional() });
export type ArtifactDescriptor = z.infer<typeof artifactDescriptorSchema>;
