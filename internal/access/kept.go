package access

import (
	"errors"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"
)

// kept is what files hold, read again when they have changed. While they can't
// be used what was read last stays, and the log says why, once for each reason.
// It is safe for concurrent use.
type kept[T any] struct {
	what  string // of which the log speaks
	files []string
	load  func() (T, error)
	every time.Duration // between two looks at the files
	log   *slog.Logger

	mu      sync.Mutex
	current T
	read    []mark // of the files, when they were read last
	looked  time.Time
	wrong   string // what was logged last; empty once the files are good
}

// begin reads the files for the first time.
func (k *kept[T]) begin() error {
	k.looked = time.Now()
	return k.renew()
}

// now is what the files hold, as far as they can be used.
func (k *kept[T]) now() T {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now := time.Now(); now.Sub(k.looked) >= k.every {
		k.looked = now
		k.look()
	}
	return k.current
}

func (k *kept[T]) look() {
	err := k.renew()
	if err == nil {
		k.wrong = ""
	} else if text := err.Error(); text != k.wrong {
		k.wrong = text
		k.log.Warn(k.what+" changed and can't be used; what was there before stays", "error", err)
	}
}

// renew reads the files if they have changed. Called under mu, or before anyone
// else has k.
func (k *kept[T]) renew() error {
	now := make([]mark, len(k.files))
	for i, name := range k.files {
		var err error
		if now[i], err = markOf(name); err != nil {
			return err
		}
	}
	if slices.Equal(now, k.read) {
		return nil
	}
	current, err := k.load()
	if err != nil {
		return err
	}
	k.current, k.read = current, now
	return nil
}

// mark tells versions of a file apart.
type mark struct {
	changed time.Time
	size    int64
}

func markOf(file string) (mark, error) {
	if file == "" {
		return mark{}, errors.New("no file is named")
	}
	info, err := os.Stat(file)
	if err != nil {
		return mark{}, err
	}
	return mark{info.ModTime(), info.Size()}, nil
}
