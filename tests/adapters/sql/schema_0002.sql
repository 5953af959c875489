-- A store of schema 0002, the oldest one that is migrated, as SQLite describes it.
CREATE TABLE store (
	id INTEGER NOT NULL,
	vector_version INTEGER NOT NULL,
	identity TEXT NOT NULL,
	PRIMARY KEY (id)
);
CREATE TABLE collections (
	number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
	name TEXT NOT NULL,
	revision INTEGER NOT NULL,
	last_document INTEGER NOT NULL,
	created_at DATETIME NOT NULL,
	UNIQUE (name)
);
CREATE TABLE documents (
	collection INTEGER NOT NULL,
	number INTEGER NOT NULL,
	id TEXT NOT NULL,
	title TEXT NOT NULL,
	source TEXT NOT NULL,
	media_type TEXT NOT NULL,
	digest TEXT NOT NULL,
	characters INTEGER NOT NULL,
	chunks INTEGER NOT NULL,
	last_chunk INTEGER NOT NULL,
	added INTEGER NOT NULL,
	revision INTEGER NOT NULL,
	ingested_at DATETIME NOT NULL,
	metadata TEXT NOT NULL,
	date TEXT NOT NULL,
	date_origin TEXT NOT NULL,
	file_stamp TEXT NOT NULL,
	file_digest TEXT NOT NULL,
	PRIMARY KEY (collection, number),
	UNIQUE (collection, id),
	FOREIGN KEY(collection) REFERENCES collections (number) ON DELETE CASCADE
);
CREATE INDEX documents_revision ON documents (collection, revision, chunks);
CREATE TABLE chunks (
	collection INTEGER NOT NULL,
	document INTEGER NOT NULL,
	label INTEGER NOT NULL,
	number INTEGER NOT NULL,
	revision INTEGER NOT NULL,
	reading TEXT NOT NULL,
	id TEXT NOT NULL,
	start INTEGER NOT NULL,
	"end" INTEGER NOT NULL,
	tokens INTEGER NOT NULL,
	line INTEGER,
	heading TEXT NOT NULL,
	text TEXT NOT NULL,
	windows TEXT NOT NULL,
	pages TEXT NOT NULL,
	PRIMARY KEY (collection, document, label),
	UNIQUE (collection, id),
	FOREIGN KEY(collection, document) REFERENCES documents (collection, number) ON DELETE CASCADE
);
CREATE INDEX chunks_reading_order ON chunks (collection, document, number);
CREATE TABLE extracts (
	collection INTEGER NOT NULL,
	document INTEGER NOT NULL,
	chunk INTEGER NOT NULL,
	position INTEGER NOT NULL,
	method TEXT NOT NULL,
	entities TEXT NOT NULL,
	relations TEXT NOT NULL,
	schema TEXT NOT NULL,
	PRIMARY KEY (collection, document, chunk, position),
	FOREIGN KEY(collection, document, chunk) REFERENCES chunks (collection, document, label) ON DELETE CASCADE
);
CREATE INDEX extracts_method ON extracts (collection, method, schema);
CREATE TABLE embedders (
	identity TEXT NOT NULL,
	state BLOB NOT NULL,
	PRIMARY KEY (identity)
);
CREATE TABLE editions (
	number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
	collection INTEGER NOT NULL,
	FOREIGN KEY(collection) REFERENCES collections (number) ON DELETE CASCADE
);
CREATE TABLE generations (
	number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
	collection INTEGER NOT NULL,
	edition INTEGER NOT NULL,
	revision INTEGER NOT NULL,
	embedder TEXT NOT NULL,
	dimension INTEGER NOT NULL,
	created_at DATETIME NOT NULL,
	layers TEXT NOT NULL,
	settings TEXT NOT NULL,
	FOREIGN KEY(collection) REFERENCES collections (number) ON DELETE CASCADE,
	FOREIGN KEY(edition) REFERENCES editions (number),
	FOREIGN KEY(embedder) REFERENCES embedders (identity)
);
CREATE INDEX generations_collection ON generations (collection, number);
CREATE INDEX generations_edition ON generations (edition, number);
CREATE INDEX generations_embedder ON generations (embedder);
CREATE TABLE history (
	generation INTEGER NOT NULL,
	collection INTEGER NOT NULL,
	revision INTEGER NOT NULL,
	created_at DATETIME NOT NULL,
	job TEXT NOT NULL,
	seconds FLOAT NOT NULL,
	layers TEXT NOT NULL,
	build TEXT NOT NULL,
	embedded TEXT NOT NULL,
	stale INTEGER NOT NULL,
	documents TEXT NOT NULL,
	changes TEXT NOT NULL,
	PRIMARY KEY (generation),
	FOREIGN KEY(collection) REFERENCES collections (number) ON DELETE CASCADE
);
CREATE INDEX history_collection ON history (collection, generation);
CREATE TABLE entities (
	edition INTEGER NOT NULL,
	position BIGINT NOT NULL,
	since INTEGER NOT NULL,
	until INTEGER NOT NULL,
	id TEXT NOT NULL,
	layer INTEGER NOT NULL,
	parent_id TEXT,
	name TEXT NOT NULL,
	type TEXT NOT NULL,
	method TEXT NOT NULL,
	mentions INTEGER NOT NULL,
	members INTEGER NOT NULL,
	description TEXT NOT NULL,
	aliases TEXT NOT NULL,
	findings TEXT NOT NULL,
	chunk_ids TEXT NOT NULL,
	second_parent_id TEXT,
	responsibility FLOAT NOT NULL,
	second_responsibility FLOAT NOT NULL,
	evidence TEXT NOT NULL,
	stale TEXT NOT NULL,
	statements TEXT NOT NULL,
	attributes TEXT NOT NULL,
	PRIMARY KEY (edition, position, since),
	FOREIGN KEY(edition) REFERENCES editions (number) ON DELETE CASCADE
);
CREATE UNIQUE INDEX entities_id ON entities (edition, id, since);
CREATE INDEX entities_parent ON entities (edition, parent_id, mentions);
CREATE INDEX entities_ended ON entities (edition, until) WHERE until < 2147483647;
CREATE TABLE unsettled_vectors (
	space TEXT NOT NULL,
	id TEXT NOT NULL,
	PRIMARY KEY (space, id)
)
 WITHOUT ROWID

;
CREATE TABLE names (
	edition INTEGER NOT NULL,
	"key" TEXT NOT NULL,
	entity BIGINT NOT NULL,
	since INTEGER NOT NULL,
	until INTEGER NOT NULL,
	PRIMARY KEY (edition, "key", entity, since),
	FOREIGN KEY(edition) REFERENCES editions (number) ON DELETE CASCADE
)
 WITHOUT ROWID

;
CREATE INDEX names_ended ON names (edition, until) WHERE until < 2147483647;
CREATE TABLE relations (
	edition INTEGER NOT NULL,
	position BIGINT NOT NULL,
	since INTEGER NOT NULL,
	until INTEGER NOT NULL,
	id TEXT NOT NULL,
	layer INTEGER NOT NULL,
	source_id TEXT NOT NULL,
	target_id TEXT NOT NULL,
	method TEXT NOT NULL,
	strength INTEGER NOT NULL,
	weight INTEGER NOT NULL,
	support INTEGER NOT NULL,
	description TEXT NOT NULL,
	chunk_ids TEXT NOT NULL,
	evidence TEXT NOT NULL,
	stale TEXT NOT NULL,
	statements TEXT NOT NULL,
	types TEXT NOT NULL,
	PRIMARY KEY (edition, position, since),
	FOREIGN KEY(edition) REFERENCES editions (number) ON DELETE CASCADE
);
CREATE INDEX relations_source ON relations (edition, source_id);
CREATE INDEX relations_target ON relations (edition, target_id);
CREATE INDEX relations_strength ON relations (edition, layer, strength);
CREATE INDEX relations_ended ON relations (edition, until) WHERE until < 2147483647;
CREATE TABLE replies (
	number INTEGER NOT NULL,
	digest TEXT NOT NULL,
	collection INTEGER NOT NULL,
	job TEXT NOT NULL,
	step TEXT NOT NULL,
	model TEXT NOT NULL,
	created_at DATETIME NOT NULL,
	finish_reason TEXT NOT NULL,
	prompt_tokens INTEGER NOT NULL,
	completion_tokens INTEGER NOT NULL,
	cost FLOAT,
	counted INTEGER NOT NULL,
	room INTEGER NOT NULL,
	chunk_ids TEXT NOT NULL,
	text TEXT,
	PRIMARY KEY (number),
	FOREIGN KEY(collection) REFERENCES collections (number) ON DELETE CASCADE
);
CREATE UNIQUE INDEX replies_kept ON replies (digest) WHERE text IS NOT NULL;
CREATE INDEX replies_spent ON replies (collection, job, model, step, prompt_tokens, completion_tokens, cost, counted, room);
CREATE TABLE agent_texts (
	collection INTEGER NOT NULL,
	kind TEXT NOT NULL,
	task TEXT NOT NULL,
	chunk_ids TEXT NOT NULL,
	text TEXT NOT NULL,
	PRIMARY KEY (collection, kind, task),
	FOREIGN KEY(collection) REFERENCES collections (number) ON DELETE CASCADE
);
CREATE TABLE corrections (
	number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
	collection INTEGER NOT NULL,
	kind TEXT NOT NULL,
	name TEXT NOT NULL,
	names TEXT NOT NULL,
	documents TEXT NOT NULL,
	chunks TEXT NOT NULL,
	created_at DATETIME NOT NULL,
	FOREIGN KEY(collection) REFERENCES collections (number) ON DELETE CASCADE
);
CREATE INDEX corrections_collection ON corrections (collection, number);
CREATE TABLE type_schemas (
	collection INTEGER NOT NULL,
	digest TEXT NOT NULL,
	name TEXT NOT NULL,
	types TEXT NOT NULL,
	decisions TEXT NOT NULL,
	PRIMARY KEY (collection),
	FOREIGN KEY(collection) REFERENCES collections (number) ON DELETE CASCADE
);
CREATE TABLE jobs (
	number INTEGER NOT NULL,
	id TEXT NOT NULL,
	kind TEXT NOT NULL,
	collection TEXT NOT NULL,
	status TEXT NOT NULL,
	owner TEXT NOT NULL,
	created_at DATETIME NOT NULL,
	updated_at DATETIME NOT NULL,
	stage TEXT NOT NULL,
	done INTEGER NOT NULL,
	total INTEGER NOT NULL,
	rate FLOAT NOT NULL,
	message TEXT NOT NULL,
	cancel_requested BOOLEAN NOT NULL,
	request TEXT NOT NULL,
	failures TEXT NOT NULL,
	result TEXT NOT NULL,
	PRIMARY KEY (number),
	UNIQUE (id)
);
CREATE INDEX jobs_created ON jobs (created_at, number);
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL,
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
