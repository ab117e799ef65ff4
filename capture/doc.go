// Package capture reads what crossed the proxy: it turns frames into calls and catalogs of
// tools, and lists what could not be seen.
//
// It is pure: frames in, values out. It understands both eras of the protocol,
// sessions opened by initialize and stateless requests with their rounds of
// input, and trusts neither side: keys count in their exact case, ids by their
// type and value, and a result never changes the request on record.
//
// Of each call it says what the catalog said when it was made: whether its server had
// listed the tool, as reading only or not, and whether the arguments fit the tool's
// input schema. A server may list other tools to another conversation, so what counts
// is what the call's own conversation was told, then what any other was. That a tool is
// not known is said only where a whole list lacks it: not while pages are missing, and
// not after something that may have been a list and could not be read, or after the
// server said that its list has changed. Tools that are kept from the agent are not
// known to it.
//
// Frames are hostile. What they can make it do is bounded by counting: lists by their
// tools (maxTools, maxListed), schemas by their parts (maxPlaces), and checks by their
// steps (maxSteps). What is beyond says so and stays unknown.
//
// It judges nothing.
package capture
