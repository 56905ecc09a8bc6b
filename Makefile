# Two commands are the whole set-up: `make demo` and `make test`. Both install what they need into .venv and the
# user's cache; a JDK 17+ and Python 3.11+ are the only prerequisites.
# Where it is set, each of the hundreds of processes that tests and demo start would compile every module again.
unexport PYTHONDONTWRITEBYTECODE
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNNABLE := $(VENV)/.runnable
INSTALLED := $(VENV)/.installed
JAR := floeberg/jars/floeberg-plugin.jar
KEEP ?=
PARALLEL ?= 2
# Of tests with servers, which run beside the others.
PARALLEL_SERVERS ?= 3
# What is run so ends with the one that runs it, killed or not. The whole of a recipe's line is: make starts it without a
# shell, which nothing would end when make is killed.
TIED := $(BIN)/python -I -S floeberg/processes/tied_process.py -
MERGES ?= 300
SEEDS ?= 1000
FROM ?= 0
SECONDS ?= 60
SEED ?= 1

.PHONY: demo test clients test-shipped-cluster test-merges test-engines test-catalogs site simulate fuzz lint bench jar promtool wheel check-jdk check-clients clean format test-helm check-go test-image pictures

demo: $(RUNNABLE) $(JAR)
	$(TIED) $(BIN)/floeberg demo $(if $(KEEP),--keep)

test: $(INSTALLED) $(JAR)
	$(TIED) $(BIN)/python -m tests.parts $(PARALLEL) $(PARALLEL_SERVERS)

# Clients of Node.js and Go, which nothing else here needs.
clients: check-clients $(INSTALLED) $(JAR)
	npm install --no-save --no-audit --no-fund --loglevel=error --prefix build/clients/node kafkajs@2.2.4
	GOMODCACHE=$(CURDIR)/build/clients/go-modules GOFLAGS=-modcacherw go build -C tests/clients/go -o $(CURDIR)/build/clients/ ./kafka_go ./franz_go ./sarama
	$(TIED) $(BIN)/pytest tests/native/node_and_go_clients.py

# The chart, by Helm, Kubernetes' schemas and the API server's own code, which nothing else here needs.
test-helm: export GOMODCACHE = $(CURDIR)/build/helm/go-modules
test-helm: export GOFLAGS = -modcacherw
test-helm: check-go $(INSTALLED)
	mkdir -p build/helm/bin
	test -x build/helm/bin/helm || GOBIN=$(CURDIR)/build/helm/bin go install helm.sh/helm/v3/cmd/helm@v3.22.0
	go build -C tests/packaging/admission -o $(CURDIR)/build/helm/bin/admission .
	$(BIN)/uv pip install --quiet --target build/helm/python kubernetes-validate==1.37.0
	$(TIED) $(BIN)/pytest tests/packaging/chart.py

# The Dockerfile's steps without an engine: minutes, and a GB from the package registry.
test-image: $(INSTALLED)
	$(TIED) $(BIN)/pytest --timeout 3000 tests/packaging/image.py

# Three brokers as Kafka ships them and what `floeberg plugin` prints: a minute that most changes need not wait for.
test-shipped-cluster: $(INSTALLED) $(JAR)
	$(TIED) $(BIN)/pytest tests/native/shipped_cluster.py

# Three hundred merges, of which `make test` has a few: minutes.
test-merges: $(INSTALLED) $(JAR)
	$(TIED) env FLOEBERG_TEST_MERGES=$(MERGES) $(BIN)/pytest -s tests/native/test_merges_under_readers.py

# The programs of docs/engines.md, ClickHouse among them: half a gigabyte that nothing else here needs.
test-engines: $(INSTALLED)
	$(BIN)/uv pip install --quiet --python $(BIN)/python --editable '.[dev,engines]'
	$(TIED) $(BIN)/pytest -n0 tests/test_engines_page.py

# The catalogs of docs/catalogs.md whose servers a machine need not have: PostgreSQL (Debian's package), Nessie (Java 21).
test-catalogs: $(INSTALLED)
	$(BIN)/uv pip install --quiet --python $(BIN)/python --editable '.[dev,postgres]'
	$(TIED) $(BIN)/pytest -n0 tests/engine/table/catalog/test_catalogs.py tests/engine/table/catalog/server_catalogs.py

# The documents as a site, in build/site; a link that leads nowhere is an error.
site: $(INSTALLED)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

simulate: $(INSTALLED)
	$(TIED) $(BIN)/python -m tests.simulation --seeds $(SEEDS) --from $(FROM)

fuzz: $(INSTALLED)
	$(TIED) $(BIN)/python -m tests.fuzz --seconds $(SECONDS) --seed $(SEED)

lint: $(INSTALLED) site
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(INSTALLED) $(JAR)
	$(TIED) $(BIN)/python -m bench

jar: $(JAR)

# Prometheus' own judge of alerts and metrics, out of Debian's package, which need not be installed for it.
promtool: build/promtool

build/promtool:
	mkdir -p build/prometheus
	cd build/prometheus && apt-get download prometheus && dpkg-deb --extract prometheus_*.deb .
	cp build/prometheus/usr/bin/promtool $@
	rm -r build/prometheus

# With the kernels, compiled for this Python: who installs it compiles nothing.
wheel: $(INSTALLED) $(JAR)
	$(BIN)/python packaging/wheel/kept_kernels.py build/kernels
	env FLOEBERG_KERNELS=$(CURDIR)/build/kernels $(BIN)/uv build --wheel --out-dir dist

# What runs; what tests and benchmarks need comes with $(INSTALLED).
$(RUNNABLE): pyproject.toml | check-jdk
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Floeberg needs Python 3.11 or newer: set PYTHON=...")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python --editable .
	# Those that are out of date are never deleted.
	rm -rf engine/kernels/compiled
	touch $@

$(INSTALLED): $(RUNNABLE)
	$(BIN)/uv pip install --quiet --python $(BIN)/python --editable '.[dev]'
	$(BIN)/python -m floeberg.kernels
	touch $@

$(JAR): $(RUNNABLE) $(wildcard plugin/src/*.java plugin/src/*/*.java plugin/src/*/*/*.java plugin/src/*/*/*/*.java plugin/build.py)
	$(BIN)/python plugin/build.py

check-jdk:
	@command -v javac >/dev/null || { echo 'Floeberg needs a JDK 17 or newer: install one and put javac on the PATH'; exit 1; }

check-clients: check-go
	@command -v npm >/dev/null && command -v node >/dev/null || { echo 'make clients needs Node.js 20 or newer: install it and put node and npm on the PATH'; exit 1; }

check-go:
	@command -v go >/dev/null || { echo 'This needs Go 1.25 or newer: install it and put go on the PATH'; exit 1; }

# Of the status page, for README and docs, in a Chromium that is there.
pictures: $(INSTALLED)
	$(TIED) $(BIN)/python -m tests.serving.status.page_pictures docs/pictures

clean:
	rm -rf $(VENV) build dist $(JAR)
