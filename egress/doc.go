// Package egress lets programs in a sandbox reach the outside hosts that the eval allows,
// and no others.
//
// A container has no route anywhere. For each name that it may reach it has an address of its
// own loopback, where connections are handed to the runner, and one for all of them,
// where an HTTP proxy answers (Places). The Proxy takes them in here, and finds out
// where each is meant to go: by what TLS or HTTP say in the clear, or by CONNECT. Where
// its policy allows that, it resolves the name once, looks at every address that came,
// dials one of those, and carries bytes. It does not open TLS, takes no notice of the
// environment's proxies, and follows no redirect.
//
// Nothing rests on the container: whoever took over its guest can open connections to these
// places, as any program there can. The package knows no engine, and not how places are
// listened at.
//
// What is sent to a host that is allowed is that host's to pass on; and what names a
// program asks for below a "*." is its choice.
package egress
