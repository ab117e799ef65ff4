# The runner in an image of its own, for docker-compose.yml: the executable and certificates.
#
#   make image             takes bin/waza, built on this machine; nothing is pulled
#   docker-compose build   compiles in a container, and pulls the compiler's image
#   a release              takes what goreleaser built for each platform; see docs/releasing.md
#
# Each names its stage.

FROM scratch AS local
COPY bin/waza /usr/local/bin/waza
COPY bin/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
WORKDIR /work
ENTRYPOINT ["/usr/local/bin/waza"]

FROM golang:1.26-bookworm AS compiler
WORKDIR /src
COPY . .
RUN scripts/guest "$(go env GOARCH)" && CGO_ENABLED=0 go build -trimpath -buildvcs=false -tags guest -o /waza ./cmd/waza

FROM scratch AS compiled
COPY --from=compiler /waza /usr/local/bin/waza
COPY --from=compiler /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
WORKDIR /work
ENTRYPOINT ["/usr/local/bin/waza"]

FROM scratch AS release
ARG TARGETPLATFORM
COPY $TARGETPLATFORM/waza /usr/local/bin/waza
COPY --from=golang:1.26-bookworm /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
WORKDIR /work
ENTRYPOINT ["/usr/local/bin/waza"]
