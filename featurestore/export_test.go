package featurestore

import "github.com/jackc/pgx/v5/pgxpool"

// Pool lets a test see what the store leaves on its connections.
func (s *Store) Pool() *pgxpool.Pool { return s.pool }
