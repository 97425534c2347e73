# A Holdfast worker. The configuration is mounted: see docker/holdfast.config.json for the simplest.
# Agents of the ACP provider are not in this image: add them in an image of your own that begins FROM this one.
ARG NODE_IMAGE=node:22.20.0-bookworm-slim

FROM ${NODE_IMAGE} AS build
WORKDIR /src
COPY package.json package-lock.json .npmrc ./
RUN npm ci
COPY . .
RUN npm run build

FROM ${NODE_IMAGE}
# tini reaps what agents leave behind: node as process 1 would not.
RUN apt-get update \
  && apt-get install -y --no-install-recommends ca-certificates tini \
  && rm -rf /var/lib/apt/lists/*
WORKDIR /app
ENV NODE_ENV=production
COPY package.json package-lock.json .npmrc ./
# None of these packages needs its install script.
RUN npm ci --omit=dev --ignore-scripts && npm cache clean --force
COPY --from=build /src/dist ./dist
USER node
ENTRYPOINT ["tini", "--", "node", "/app/dist/cli/main.js"]
CMD ["worker", "--config", "/etc/holdfast/holdfast.config.json", "--ready-file", "/tmp/holdfast-ready"]
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s CMD ["test", "-f", "/tmp/holdfast-ready"]
