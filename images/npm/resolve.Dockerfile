# What packages from npm come to: the lock of all that they need. Nothing is
# installed and no script is run.

ARG BASE
FROM ${BASE} AS resolve
ARG RUN
LABEL waza.run=${RUN}
USER 0
COPY network /network
COPY args /network/
WORKDIR /out
COPY package.json ./
RUN . /network/env && . /network/args \
 && npm install --package-lock-only --omit=dev --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error \
 && mv package-lock.json /manifest.json

FROM scratch
ARG RUN
LABEL waza.run=${RUN}
COPY --from=resolve /manifest.json /manifest.json
