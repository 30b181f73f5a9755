package bundle

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics"
)

// The encoded form, all integers little-endian:
//
//	8 bytes   magic "spillway"
//	4 bytes   format version
//	4 bytes   length of the header
//	          header: JSON, with the length of every forest
//	          the four forests, LightGBM text, by Target
//	32 bytes  SHA-256 of everything before
const (
	magic         = "spillway"
	formatVersion = 2
	prefixSize    = len(magic) + 4 + 4
	minSize       = prefixSize + sha256.Size
)

// Limits on what Encode and Decode accept.
const (
	MaxSize    = 64 << 20 // bytes of an encoded bundle
	maxHeader  = 1 << 20
	maxKnown   = 1024
	maxClasses = 1024
)

// header is the JSON part. Vectors are bytes, as feature.Vector.Append writes
// them, because JSON has no NaN.
type header struct {
	LLM          string                          `json:"llm"`
	Schema       string                          `json:"schema"`
	CreatedAt    time.Time                       `json:"created_at"`
	Seed         uint64                          `json:"seed"`
	Window       Window                          `json:"window"`
	Coefficients map[string]physics.Coefficients `json:"coefficients"`
	Fitted       physics.Fitted                  `json:"fitted_prior"`
	Heads        []headHeader                    `json:"heads"`
	SupportMin   []byte                          `json:"support_min"`
	SupportMax   []byte                          `json:"support_max"`
	Known        []knownHeader                   `json:"known"`
}

type headHeader struct {
	Target string  `json:"target"`
	Size   int     `json:"size"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`

	Shift   float64 `json:"shift"`
	Damping float64 `json:"damping"`
}

type knownHeader struct {
	Vector   []byte           `json:"vector"`
	Raw      [Targets]float64 `json:"raw"`
	Residual [Targets]float64 `json:"residual"`
}

// Encode returns the bytes of b, which should have passed Check. Equal bundles
// give equal bytes.
func Encode(b *Bundle) ([]byte, error) {
	h := header{
		LLM:          b.LLM,
		Schema:       b.Schema.String(),
		CreatedAt:    b.CreatedAt.UTC(),
		Seed:         b.Seed,
		Window:       Window{b.Window.Rows, b.Window.From.UTC(), b.Window.To.UTC()},
		Coefficients: b.Coefficients,
		Fitted:       b.Fitted,
		SupportMin:   b.Support.Min.Append(nil),
		SupportMax:   b.Support.Max.Append(nil),
		Known:        []knownHeader{},
	}
	size := minSize
	for t, head := range b.Heads {
		h.Heads = append(h.Heads, headHeader{Target(t).String(), len(head.Forest), head.Low, head.High, head.Shift, head.Damping})
		size += len(head.Forest)
	}
	for _, k := range b.Known {
		encoded := knownHeader{Vector: k.Vector.Append(nil), Raw: k.Raw}
		for t := range Targets {
			encoded.Residual[t] = residualOf(k.Residual, t)
		}
		h.Known = append(h.Known, encoded)
	}
	text, err := json.Marshal(h)
	if err != nil {
		return nil, fmt.Errorf("encode bundle for %s: %w", b.LLM, err)
	}
	size += len(text)
	if err := checkLimits(len(text), len(h.Known), len(h.Coefficients), size); err != nil {
		return nil, fmt.Errorf("encode bundle for %s: %w", b.LLM, err)
	}
	out := append(make([]byte, 0, size), magic...)
	out = binary.LittleEndian.AppendUint32(out, formatVersion)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(text)))
	out = append(out, text...)
	for _, head := range b.Heads {
		out = append(out, head.Forest...)
	}
	sum := sha256.Sum256(out)
	return append(out, sum[:]...), nil
}

// Decode reads what Encode wrote and refuses everything else: another magic
// or format version, bytes missing, changed or left over, unknown fields,
// wrong counts, and with ErrSchema a bundle whose vectors are not those of
// this build. It does not look into the forests: ask Check. The bundle keeps
// data, which must not change afterwards.
func Decode(data []byte) (*Bundle, error) {
	b, err := decode(data)
	if err != nil {
		return nil, fmt.Errorf("decode bundle: %w", err)
	}
	return b, nil
}

func decode(data []byte) (*Bundle, error) {
	if len(data) > MaxSize {
		return nil, fmt.Errorf("%d bytes, want at most %d", len(data), MaxSize)
	}
	if len(data) < minSize {
		return nil, fmt.Errorf("truncated: %d bytes, want at least %d", len(data), minSize)
	}
	if string(data[:len(magic)]) != magic {
		return nil, errors.New("not a bundle: wrong magic")
	}
	if v := binary.LittleEndian.Uint32(data[len(magic):]); v != formatVersion {
		return nil, fmt.Errorf("format version %d, want %d", v, formatVersion)
	}
	body, sum := data[:len(data)-sha256.Size], data[len(data)-sha256.Size:]
	if got := sha256.Sum256(body); !bytes.Equal(got[:], sum) {
		return nil, fmt.Errorf("checksum mismatch in %d bytes: truncated or changed", len(data))
	}
	size := int64(binary.LittleEndian.Uint32(data[prefixSize-4:]))
	if size > int64(len(body)-prefixSize) {
		return nil, fmt.Errorf("truncated: header of %d bytes, %d left", size, len(body)-prefixSize)
	}
	h, err := readHeader(body[prefixSize : prefixSize+int(size)])
	if err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	if err := checkLimits(int(size), len(h.Known), len(h.Coefficients), len(data)); err != nil {
		return nil, err
	}
	return h.bundle(body[prefixSize+int(size):])
}

func readHeader(text []byte) (*header, error) {
	var h header
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&h); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("bytes left over")
	}
	return &h, nil
}

func checkLimits(headerSize, known, classes, size int) error {
	for _, x := range []struct {
		what       string
		value, max int
	}{
		{"bytes of header", headerSize, maxHeader},
		{"known answers", known, maxKnown},
		{"endpoint classes", classes, maxClasses},
		{"bytes", size, MaxSize},
	} {
		if x.value > x.max {
			return fmt.Errorf("%d %s, want at most %d", x.value, x.what, x.max)
		}
	}
	return nil
}

// bundle joins the header with the forests.
func (h *header) bundle(forests []byte) (*Bundle, error) {
	b := &Bundle{
		LLM: h.LLM, CreatedAt: h.CreatedAt.UTC(), Seed: h.Seed, Coefficients: h.Coefficients, Fitted: h.Fitted,
		Window: Window{h.Window.Rows, h.Window.From.UTC(), h.Window.To.UTC()},
	}
	var err error
	if b.Schema, err = feature.ParseFingerprint(h.Schema); err != nil {
		return nil, err
	}
	if b.Schema != feature.Schema {
		return nil, fmt.Errorf("%w: %s, want %s", ErrSchema, b.Schema, feature.Schema)
	}
	if len(h.Heads) != int(Targets) {
		return nil, fmt.Errorf("%d heads, want %d", len(h.Heads), Targets)
	}
	for t, head := range h.Heads {
		if head.Target != Target(t).String() {
			return nil, fmt.Errorf("head %d is %q, want %s", t, head.Target, Target(t))
		}
		if head.Size < 0 || head.Size > len(forests) {
			return nil, fmt.Errorf("truncated: forest %s of %d bytes, %d left", head.Target, head.Size, len(forests))
		}
		b.Heads[t] = Head{Forest: forests[:head.Size:head.Size], Low: head.Low, High: head.High, Shift: head.Shift, Damping: head.Damping}
		forests = forests[head.Size:]
	}
	if len(forests) > 0 {
		return nil, fmt.Errorf("%d bytes left over after the forests", len(forests))
	}
	if b.Support.Min, err = feature.DecodeVector(h.SupportMin); err != nil {
		return nil, fmt.Errorf("support: %w", err)
	}
	if b.Support.Max, err = feature.DecodeVector(h.SupportMax); err != nil {
		return nil, fmt.Errorf("support: %w", err)
	}
	for i, k := range h.Known {
		v, err := feature.DecodeVector(k.Vector)
		if err != nil {
			return nil, fmt.Errorf("known answer %d: %w", i, err)
		}
		b.Known = append(b.Known, KnownAnswer{v, k.Raw, feature.Residual{
			TTFT: feature.LogQuantiles{P50: k.Residual[TTFTP50], P90: k.Residual[TTFTP90]},
			TPOT: feature.LogQuantiles{P50: k.Residual[TPOTP50], P90: k.Residual[TPOTP90]},
		}})
	}
	return b, nil
}
