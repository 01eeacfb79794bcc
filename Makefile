# Backplane. `make demo` runs the main job, `make test` passes the tests; both do all the set-up they need.

.DEFAULT_GOAL := help
SHELL := /bin/bash
STEP := scripts/step
.PHONY: help
help: ## Shows this list.
	@grep -hE '^[a-z0-9-]+:.*## ' Makefile | sed -E 's/:.*## /\t/' | expand -t 16

# ---- set-up

.PHONY: need
need:
	@scripts/need cc=build-essential
	@scripts/need-rust

.PHONY: need-test
need-test:
	@scripts/need --wish curl=curl openssl=openssl xrdcp=xrootd-client xrootd=xrootd-server tapemap=hercules ip=iproute2 \
		python3:XRootD=python3-xrootd python3:gfal2=python3-gfal2 gfal-copy=gfal2-util-scripts davix-get=davix rclone=rclone wget=wget litmus=litmus \
		chromium=chromium chromedriver=chromium-driver gfortran=gfortran pkg-config=pkg-config systemd-analyze=systemd promtool=prometheus mkfs.btrfs=btrfs-progs faketime=faketime '/usr/lib/postgresql/*/bin/initdb=postgresql' \
		/usr/sbin/munged=munge /usr/sbin/slurmctld=slurm-wlm \
		'/usr/lib/*/gfal2-plugins/libgfal_plugin_http.so=gfal2-plugin-http' \
		'/usr/lib/*/gfal2-plugins/libgfal_plugin_xrootd.so=gfal2-plugin-xrootd' \
		'/usr/lib/*/gfal2-plugins/libgfal_plugin_file.so=gfal2-plugin-file' \
		tgtd=tgt '/usr/lib/*/libiscsi.so.7=libiscsi7' \
		smbd=samba smbclient=smbclient ganesha.nfsd=nfs-ganesha '/usr/lib/*/ganesha/libfsalvfs.so=nfs-ganesha-vfs' nfs-cp=libnfs-utils \
		fio=fio dbench=dbench rsync=rsync git=git sqlite3=sqlite3
	@scripts/need-tool pjdfstest=0.2.2 fsx=0.3.2

# What tests and measurements need besides. In one call of cargo: another set of packages has other features, and most of
# the workspace would be compiled once more.
LOADS := --package rfio-load --package head-load --package forget-fs

.PHONY: build
build: need ## Builds the release binaries in target/release and the Python package in .venv.
	@$(STEP) "bp, bpd and the Python module, compiled" env PYO3_BUILD_EXTENSION_MODULE=1 \
		cargo build --release --locked --package cli --package daemon --package capi \
		--package backplane-python $(LOADS)
	@$(STEP) "virtual environment" scripts/venv package
	@scripts/link-package

# ---- use

PREFIX ?= /usr/local
.PHONY: install
install: ## Installs what `make build` made: programs, manual pages, completions, unit (PREFIX, DESTDIR).
	@PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' scripts/install

.PHONY: demo
demo: build ## Runs the main job: generator, batch, tape, recall, n-tuple, Z peak.
	@$(STEP) "generator and plotting packages" scripts/venv demo
	@$(STEP) "demonstration" .venv/bin/python demo/run.py $(DEMO)

.PHONY: clean
clean: ## Removes everything that was built.
	rm -rf target .venv demo-out

# ---- tests

# Black-box tests that run at a time: each has a facility of its own, and most of its time it waits.
SIDE_BY_SIDE ?= 3

.PHONY: test
test: build need-test ## Runs every test.
	@$(STEP) "test packages" scripts/venv test blackbox demo
	@$(STEP) "Rust tests, compiled" cargo test --workspace --exclude backplane-python --locked --no-run --quiet
	@$(STEP) "Rust tests" cargo test --workspace --exclude backplane-python --locked --quiet
	@$(STEP) "Python tests" bash -c 'cd python && ../.venv/bin/python -m pytest -q'
	@$(STEP) "black-box tests" .venv/bin/python -m pytest -q --numprocesses $(SIDE_BY_SIDE) --dist loadscope tests

.PHONY: test-kill9
test-kill9: build need-test ## Kills the daemon 50 times at random under load.
	@scripts/venv test blackbox
	BP_KILLS=50 .venv/bin/python -m pytest -q -s tests/test_kill9.py

.PHONY: test-job-kills
test-job-kills: build need-test ## Submits 500 jobs, kills the daemon after every five; then kills anything for ten minutes.
	@scripts/venv test blackbox
	BP_ACK_JOBS=$${BP_ACK_JOBS:-500} BP_KILL_SECONDS=$${BP_KILL_SECONDS:-600} .venv/bin/python -m pytest -q -s tests/test_job_kills.py

.PHONY: test-power-cut
test-power-cut: build need-test ## Cuts the power 20 times at random under load.
	@scripts/venv test blackbox
	BP_CUTS=$${BP_CUTS:-20} .venv/bin/python -m pytest -q -s tests/test_forget_fs.py tests/test_power_cut.py

.PHONY: test-tape-life
test-tape-life: build need-test ## Takes 20,500 files through the whole life of a tape library, on libraries of each kind.
	@scripts/venv test blackbox
	BP_LIFE_FILES=$${BP_LIFE_FILES:-500,20000} .venv/bin/python -m pytest -q -s tests/test_tape_life.py

.PHONY: test-tape-kills
test-tape-kills: build need-test ## Kills the tape server 50 times at random under load.
	@scripts/venv test blackbox
	BP_KILLS=$${BP_KILLS:-25} .venv/bin/python -m pytest -q -s tests/test_tape_kills.py

.PHONY: test-tape-faults
test-tape-faults: need ## Runs 1,000 lives of emulated tape devices with faults at any command.
	BP_TAPE_SEEDS=$${BP_TAPE_SEEDS:-1000..2000} cargo test --release --package tape --lib -- --nocapture no_fault_loses

.PHONY: test-sim
test-sim: ## Simulates a thousand random lives of a facility, and a year of pools on 200 servers.
	BP_SIM_SEEDS=1000..2000 BP_YEAR_SEEDS=1000..1500 cargo test --release --package sim -- --nocapture
	cargo test --release --package sim --test year -- --ignored --nocapture

.PHONY: test-soak
test-soak: build need-test ## Soaks a facility in 200 clients for half an hour, with kills and a restart.
	@scripts/venv test blackbox
	BP_SOAK_SECONDS=$${BP_SOAK_SECONDS:-1800} .venv/bin/python -m pytest -q -s tests/test_soak.py

.PHONY: test-faults
test-faults: build need-test ## Kills and cuts off hosts of a facility at random for a quarter of an hour.
	@scripts/venv test blackbox
	BP_FAULT_SECONDS=$${BP_FAULT_SECONDS:-900} .venv/bin/python -m pytest -q -s tests/test_faults.py

.PHONY: faults-share
faults-share: build need-test ## Runs 200 seeds of faults of hosts that share files, and checks the history of each.
	@scripts/venv test blackbox
	BP_SHARE_SEEDS=$${BP_SHARE_SEEDS:-1..200} .venv/bin/python -m pytest -q -s tests/test_mount_faults.py

.PHONY: pjdfstest
pjdfstest: build need-test ## Tests what a mount promises to programs, with pjdfstest; as root.
	@scripts/venv test blackbox
	.venv/bin/python -m pytest -q -s -n0 tests/test_pjdfstest.py

.PHONY: fsx
fsx: build need-test ## Does a million random operations on files in mounts, and compares each with a plain file.
	@scripts/venv test blackbox
	BP_FSX_OPERATIONS=$${BP_FSX_OPERATIONS:-1000000} .venv/bin/python -m pytest -q -s tests/test_fsx.py

.PHONY: fuzz
fuzz: need ## Fuzzes every parser of outside bytes for an hour.
	fuzz/run

# ---- measurements

.PHONY: bench-rfio
bench-rfio: build ## Measures remote file I/O beside xrootd, nginx and iperf3; tables and plots in bench/results.
	@scripts/need --wish xrdcp=xrootd-client xrootd=xrootd-server nginx=nginx curl=curl iperf3=iperf3
	@scripts/venv demo
	.venv/bin/python -m bench.rfio $(BENCH)

.PHONY: bench-wait
bench-wait: build ## Measures what ten thousand waiting opens cost: processor, memory, and how long bp ls takes beside them.
	python3 bench/wait.py --bp target/release/bp

.PHONY: bench-head
bench-head: build ## Measures what one head does in a second, on SQLite and PostgreSQL; tables in bench/results.
	@scripts/need --wish '/usr/lib/postgresql/*/bin/initdb=postgresql'
	@scripts/venv demo
	.venv/bin/python -m bench.head $(BENCH)
	.venv/bin/python -m bench.scale $(SCALE)

.PHONY: bench-share
bench-share: build ## Measures mounts beside the local file system and GlusterFS; tables and plots in bench/results.
	@scripts/need --wish gluster=glusterfs-server cpio=cpio git=git cc=build-essential
	@scripts/venv demo
	.venv/bin/python -m bench.share $(SHARE)

.PHONY: bench-analysis
bench-analysis: build ## Measures passes over n-tuples beside hand-written C and what is installed of DuckDB, Polars, boost-histogram.
	@scripts/need --wish cc=build-essential
	@scripts/venv demo
	.venv/bin/python -m bench.analysis $(ANALYSIS)

.PHONY: bench-batch
bench-batch: build ## Measures jobs a second beside Slurm, GNU parallel, task spooler and xargs; a table in bench/results.
	@scripts/need --wish parallel=parallel tsp=task-spooler munged=munge slurmctld=slurmctld slurmd=slurmd sbatch=slurm-client
	@scripts/venv test blackbox
	.venv/bin/python -m bench.batch $(BATCH)

.PHONY: bench-replay
bench-replay: need ## Replays a trace of jobs (TRACE=file.swf.gz) beside first-come order and classic fair share.
	@$(STEP) "replay" cargo build --release --locked --package sim --bin replay
	@scripts/venv demo
	.venv/bin/python -m bench.replay $(TRACE)

.PHONY: lint
lint: need ## Formats checked, lints and types as errors, licences.
	@$(STEP) "rustfmt" cargo fmt --all --check
	@$(STEP) "clippy" cargo clippy --workspace --all-targets --locked --quiet -- --deny warnings
	@$(STEP) "rustdoc" env RUSTDOCFLAGS="--deny warnings" cargo doc --workspace --no-deps --locked --quiet
	@$(STEP) "lint packages" scripts/venv test demo blackbox
	@$(STEP) "ruff" .venv/bin/ruff check --quiet python tests demo bench examples
	@$(STEP) "ruff format" .venv/bin/ruff format --quiet --check python tests demo bench examples
	@$(STEP) "mypy" bash -c 'cd python && ../.venv/bin/mypy --no-error-summary'
	@$(STEP) "licences" scripts/licences
