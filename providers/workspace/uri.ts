/** Where an artifact's bytes are to be fetched: an address of the deployment, made from a template. */
import { pathToFileURL } from 'node:url';
import { z } from 'zod';

const FIELDS = ['tenant', 'conversation', 'execution', 'workspace', 'path'] as const;
export type UriFields = Readonly<Record<(typeof FIELDS)[number], string>>;

/** Such as `https://files.example/{conversation}/{path}`. What stands in for a field is percent-encoded. */
export const uriTemplate = z
  .string()
  .max(1000)
  .refine((template) => /^[a-z][a-z0-9+.-]*:/i.test(template), 'must be a URI with its scheme')
  .refine((template) => [...template.matchAll(/\{([^}]*)\}/g)].every(([, field]) => isField(field)), {
    message: `may hold ${FIELDS.map((field) => `{${field}}`).join(', ')} and no other field`,
  });

const isField = (field: string | undefined): boolean => FIELDS.some((known) => known === field);

/** The URI by the template; without one, of the file itself on its host. Longer ones than the contract takes are none. */
export function artifactUri(template: string | undefined, file: string, fields: UriFields): string | undefined {
  const uri =
    template === undefined
      ? pathToFileURL(file).href
      : template.replaceAll(/\{(\w+)\}/g, (_, field: keyof UriFields) =>
          fields[field].split('/').map(encodeURIComponent).join('/'),
        );
  return uri.length > 2000 ? undefined : uri;
}
