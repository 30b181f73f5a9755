package loadgen

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
)

// Terminal returns standard error if a person may be looking at it, else nil:
// where Config.Progress usually goes.
func Terminal() io.Writer {
	if info, err := os.Stderr.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return nil
	}
	return os.Stderr
}

// bar shows how many requests have ended and how many of them failed.
type bar struct {
	*progressbar.ProgressBar
	failed int
}

func newBar(w io.Writer, limit int) *bar {
	if limit == 0 {
		limit = -1 // a counter without an end
	}
	return &bar{ProgressBar: progressbar.NewOptions(limit,
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetDescription("requests"),
		progressbar.OptionShowCount(),
		progressbar.OptionShowIts(),
		progressbar.OptionSetItsString("req"),
		progressbar.OptionSetWidth(30),
		progressbar.OptionThrottle(200*time.Millisecond),
		progressbar.OptionSetSpinnerChangeInterval(0), // it moves when requests end, no goroutine needed
	)}
}

func (b *bar) add(ok bool) {
	if !ok {
		b.failed++
		b.Describe(fmt.Sprintf("requests (%d failed)", b.failed))
	}
	_ = b.Add(1) // a bar that cannot be drawn is no reason to fail
}
