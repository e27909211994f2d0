package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gocql/gocql"
)

const keys = 8

// The statements of a register and its column, which the environment may replace.
var (
	readText   = text("READ", "SELECT v FROM registers.rows WHERE k = ?")
	insertText = text("INSERT", "INSERT INTO registers.rows (k, v) VALUES (?, ?) IF NOT EXISTS")
	updateText = text("UPDATE", "UPDATE registers.rows SET v = ? WHERE k = ? IF v = ?")
	deleteText = text("DELETE", "DELETE FROM registers.rows WHERE k = ? IF v = ?")
	column     = text("COLUMN", "v")
)

func text(name, standard string) string {
	if value, found := os.LookupEnv("REGISTER_" + name); found {
		return value
	}
	return standard
}

// operation is one line of a history, as linearizable.py reads it.
type operation struct {
	Key      string `json:"key"`
	Client   int    `json:"client"`
	Kind     string `json:"kind"`
	Begin    int64  `json:"begin"`
	End      *int64 `json:"end"`
	Expected *int64 `json:"expected"`
	New      *int64 `json:"new"`
	Applied  *bool  `json:"applied"`
	Found    *int64 `json:"found"`
}

// load is what all clients share.
type load struct {
	session *gocql.Session
	began   time.Time
	values  atomic.Int64
	// The last value that a client saw of each register; it may be old.
	latest [keys]atomic.Pointer[int64]
}

// registers runs clients that read and conditionally write eight rows for some seconds, and writes
// what they saw to a file.
func registers(cluster *gocql.ClusterConfig, arguments []string) {
	seconds, err := strconv.Atoi(arguments[0])
	must(err)
	clients, err := strconv.Atoi(arguments[1])
	must(err)
	cluster.Keyspace = "registers"
	cluster.SerialConsistency = gocql.Serial
	session, err := cluster.CreateSession()
	must(err)
	defer session.Close()
	fmt.Println("connected")
	shared := &load{session: session, began: time.Now()}
	histories := make([][]operation, clients)
	var all sync.WaitGroup
	for client := 0; client < clients; client++ {
		all.Add(1)
		go func() {
			defer all.Done()
			draw := rand.New(rand.NewSource(int64(client)))
			for time.Since(shared.began) < time.Duration(seconds)*time.Second {
				histories[client] = append(histories[client], shared.operate(client, draw))
			}
		}()
	}
	all.Wait()
	file, err := os.Create(arguments[2])
	must(err)
	buffered := bufio.NewWriter(file)
	encoder := json.NewEncoder(buffered)
	for _, history := range histories {
		for _, one := range history {
			must(encoder.Encode(one))
		}
	}
	must(buffered.Flush())
	must(file.Close())
}

// operate sends one request that suits the latest value of a random register.
func (shared *load) operate(client int, draw *rand.Rand) operation {
	register := draw.Intn(keys)
	expected := shared.latest[register].Load()
	one := operation{Key: strconv.Itoa(register), Client: client, Kind: "cas"}
	var err error
	var applied bool
	choice := draw.Intn(10)
	one.Begin = time.Since(shared.began).Nanoseconds()
	switch {
	case choice < 3:
		one.Kind = "read"
		err = shared.session.Query(readText, register).
			Consistency(gocql.Consistency(gocql.Serial)).Scan(&one.Found)
		if errors.Is(err, gocql.ErrNotFound) {
			err = nil
		}
	case choice == 3 || expected == nil:
		value := shared.values.Add(1)
		one.New = &value
		applied, err = shared.cas(&one, insertText, register, value)
	case choice == 4:
		one.Expected = expected
		applied, err = shared.cas(&one, deleteText, register, expected)
	default:
		value := shared.values.Add(1)
		one.Expected, one.New = expected, &value
		applied, err = shared.cas(&one, updateText, value, register, expected)
	}
	if err != nil {
		refuseOrPause(err)
		one.Found = nil
		return one
	}
	end := time.Since(shared.began).Nanoseconds()
	one.End = &end
	seen := one.Found
	if one.Kind == "cas" {
		one.Applied = &applied
		if applied {
			seen = one.New
		}
	}
	shared.latest[register].Store(seen)
	return one
}

// cas sends a conditional statement, and enters the value of an answer that was not applied.
func (shared *load) cas(one *operation, text string, values ...any) (bool, error) {
	row := map[string]any{}
	applied, err := shared.session.Query(text, values...).MapScanCAS(row)
	if value, found := row[column].(int64); found && !applied {
		one.Found = &value
	}
	return applied, err
}

// refuseOrPause ends the program if the error says that the request was wrong. After another error
// the write may have happened.
func refuseOrPause(err error) {
	var answer gocql.RequestError
	if errors.As(err, &answer) && answer.Code() >= 0x2000 && answer.Code() != gocql.ErrCodeUnprepared {
		fail(err.Error())
	}
	time.Sleep(20 * time.Millisecond)
}
