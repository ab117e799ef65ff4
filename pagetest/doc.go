// Package pagetest opens what waza shows in a browser: reports of real runs and of made
// ones, and the pages of its server. It is tests alone.
package pagetest
