package evidence

// Origin says who asked for a call, by the record of what models were asked and
// answered.
type Origin string

const (
	// OriginModel is a call that a model asked for.
	OriginModel Origin = "model"
	// OriginOutOfBand is one that no model asked for: the record of their answers is
	// whole, and has no such use of a tool left.
	OriginOutOfBand Origin = "out_of_band"
	// OriginUnknown is one of which that cannot be told: no gateway was in the way of the
	// agent's models, the record is not whole, or more calls than one may be what was
	// asked for.
	OriginUnknown Origin = "unknown"
)
