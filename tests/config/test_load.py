from __future__ import annotations

import json
from pathlib import Path

import hypothesis
import pytest
import yaml
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from frazil.config.load import LoadedConfig, load_config
from frazil.config.model import Config
from frazil.config.setting_tree import KeyPath, Setting, SettingGroup, dotted, setting_tree, variable
from frazil.errors import ConfigError
from tests.config.samples import (
    NAMES,
    SETTINGS,
    all_texts,
    as_text,
    companions,
    invalid_text,
    named,
    nested,
    valid_text,
    value_at,
)
from tests.examples import examples


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns one file for all examples of a property."""
    return tmp_path_factory.mktemp("config") / "given.yaml"


def load(text: str, **environ: str) -> LoadedConfig:
    path = Path("frazil.yaml")
    path.write_text(text, "utf-8")
    return load_config(environ=environ)


def problems(text: str, **environ: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(text, **environ)
    assert caught.value.exit_code == 1
    lines = str(caught.value).splitlines()
    return lines if len(lines) == 1 else [line.strip() for line in lines[1:]]


def test_without_a_file_everything_has_its_default() -> None:
    loaded = load_config(environ={})
    assert loaded.config == Config()
    assert loaded.path is None


@pytest.mark.parametrize(
    "text", ["", "# nothing\n", "---\n", "log:\n", "log: {seal: }\ntopics:\nstore: {options: }\n", "\ufeff"]
)
def test_nothing_given_means_the_defaults(text: str) -> None:
    assert load(text).config == Config()


@settings(max_examples=examples(50), deadline=None)
@given(texts=all_texts())
def test_every_documented_key_can_be_set_by_file_and_by_environment(texts: dict[KeyPath, str], scratch: Path) -> None:
    """All keys are set at once, because each alone would take minutes. That a key needs no other is tested below."""
    assert len(texts) == len(SETTINGS)
    scratch.write_text(yaml.safe_dump(nested(texts)), "utf-8")
    by_file = load_config(scratch, environ={})
    by_environment = load_config(environ={variable(key): text for key, text in texts.items()})
    assert by_file.config == by_environment.config
    for key, text in texts.items():
        value = value_at(by_file.config, key)
        assert as_text(value) == text or float(str(value)) == float(text), dotted(key)
        assert by_environment.origins[key] == variable(key)


@pytest.mark.parametrize(
    ("path", "setting"), SETTINGS, ids=lambda value: dotted(value) if isinstance(value, tuple) else ""
)
def test_a_key_needs_no_others(path: KeyPath, setting: Setting, seed: int) -> None:
    key = named(path, "orders")
    text = one_of(valid_text(setting), seed)
    needed = {variable(companion): value for companion, value in companions(key).items()}
    config = load_config(environ={variable(key): text, **needed}).config
    value = value_at(config, key)
    assert as_text(value) == text or float(str(value)) == float(text)


def one_of(strategy: st.SearchStrategy[str], seed: int) -> str:
    chosen: list[str] = []

    @hypothesis.seed(seed)
    @settings(max_examples=1, database=None, phases=[Phase.generate])
    @given(strategy)
    def choose(text: str) -> None:
        chosen.append(text)

    choose()
    return chosen[0]


@settings(deadline=None)
@given(data=st.data())
def test_the_environment_wins_over_the_file(data: st.DataObject, scratch: Path) -> None:
    path, setting = data.draw(st.sampled_from(SETTINGS))
    key = named(path, "orders")
    in_file, in_environment = data.draw(valid_text(setting)), data.draw(valid_text(setting))
    name = data.draw(st.sampled_from([str.upper, str.lower, str.title]))(variable(key))
    needed = companions(key)
    scratch.write_text(yaml.safe_dump(nested({key: in_file, **needed})), "utf-8")
    both = load_config(scratch, environ={name: in_environment})
    scratch.write_text(yaml.safe_dump(nested({key: in_environment, **needed})), "utf-8")
    assert both.config == load_config(scratch, environ={}).config


@settings(deadline=None)
@given(data=st.data())
def test_an_unknown_key_is_named_with_its_line(data: st.DataObject, scratch: Path) -> None:
    known: list[KeyPath] = [
        *(("log",), ("log", "seal"), ("store",), ("lake",), ("pipeline", "retry"), ("maintenance", "expiry")),
        *(("topics", "orders"), ("topics", "orders", "table"), ("server",), ("logging",), ()),
    ]
    section = data.draw(st.sampled_from(known))
    node: Setting | SettingGroup | None = setting_tree()
    for part in section:
        assert isinstance(node, SettingGroup)
        node = node.child(part)
    assert isinstance(node, SettingGroup)
    key = data.draw(NAMES.filter(lambda name: name not in node.children))
    blank_lines = data.draw(st.integers(0, 5))
    scratch.write_text("\n" * blank_lines + yaml.safe_dump(nested({(*section, key): "x"})), "utf-8")
    with pytest.raises(ConfigError) as caught:
        load_config(scratch, environ={})
    message = str(caught.value)
    assert message.startswith(f"{dotted((*section, key))}: unknown key; ")
    assert message.endswith(f"({scratch}, line {blank_lines + len(section) + 1})")


@pytest.mark.parametrize(
    ("path", "setting"), SETTINGS, ids=lambda value: dotted(value) if isinstance(value, tuple) else ""
)
def test_a_wrong_value_is_reported_with_what_is_allowed(path: KeyPath, setting: Setting) -> None:
    key = named(path, "orders")
    wrong = invalid_text(setting)
    needed = companions(key)
    if wrong is None:
        text = yaml.safe_dump(nested({(*key, "below"): "x", **needed}))
        assert problems(text)[0].startswith(f"{dotted(key)}: ")
        return
    (problem,) = problems(yaml.safe_dump(nested(needed)) if needed else "", **{variable(key): wrong})
    assert problem == f"{dotted(key)}: {wrong!r} is not allowed; allowed: {setting.allowed} ({variable(key)})"


def test_all_problems_are_reported_at_once() -> None:
    text = "log:\n  sync: sometimes\n  sinc: always\nserver:\n  port: 70000\n  port: 1\nsync: always\n"
    assert problems(text, FRAZIL__LOG__SINK="x", FRAZIL__NODE="a b") == [
        "server.port: given twice, first in line 5 (frazil.yaml, line 6)",
        "log.sink: unknown key; did you mean log.sync? (FRAZIL__LOG__SINK)",
        "node: 'a b' is not allowed; allowed: text that matches ^[A-Za-z0-9._-]{1,100}$ (FRAZIL__NODE)",
        "log.sync: 'sometimes' is not allowed; allowed: always, periodic, none (frazil.yaml, line 2)",
        "log.sinc: unknown key; did you mean log.sync? (frazil.yaml, line 3)",
        "server.port: '70000' is not allowed; allowed: whole number from 0 to 65535 (frazil.yaml, line 5)",
        "sync: unknown key; did you mean log.sync? (frazil.yaml, line 7)",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("log: 5", "log: '5' is not a section; its keys: sync, "),
        ("topics: [a]", "topics: a list is not a section; its keys: names of your choice"),
        ("server: {port: }", "server.port: nothing is not allowed; allowed: whole number"),
        ("store: {secret_access_key: [hunter2]}", "store.secret_access_key: ******** is not allowed"),
        ("log: {sync: !!python/name:os.system x}", "log.sync: the tag tag:yaml.org,2002:python/name:os.system"),
        ("? [a]\n: b\n", "top level: a key must be text (frazil.yaml, line 1)"),
        ("zzz: 1", "zzz: unknown key; known keys here: data_dir, node, log,"),
        ("- a", "frazil.yaml: must be a mapping of keys to values, not a list"),
        ("just text", "frazil.yaml: must be a mapping of keys to values, not 'just text'"),
        ("log:\n  sync: [a\n", "frazil.yaml, line 3, column 1: not valid YAML: expected ',' or ']'"),
        ("log:\n\tsync: a", "frazil.yaml, line 2, column 1: not valid YAML: found character '\\t'"),
        ("log: *nobody", "frazil.yaml, line 1, column 6: not valid YAML: found undefined alias 'nobody'"),
        ("a: 1\n---\nb: 2", "frazil.yaml, line 2, column 1: not valid YAML: but found another document"),
        ("log: \x07", "frazil.yaml, line 1, column 6: not valid YAML: the character U+0007"),
        ("a: &a [*a]", "frazil.yaml: nested too deeply"),
        ("[" * 5000, "frazil.yaml: nested too deeply"),
    ],
)
def test_a_bad_file_is_explained(text: str, problem: str) -> None:
    assert problems(text)[0].startswith(problem)


def test_aliases_that_multiply_are_refused() -> None:
    levels = [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 12)]
    assert problems("\n".join(["l0: &l0 [x]", *levels])) == ["frazil.yaml: more than 100000 values"]


def test_an_alias_repeats_a_section() -> None:
    topics = load("topics:\n  a: &same {ack: object}\n  b: *same\n").config.topics
    assert topics["a"] == topics["b"]


def test_a_file_that_cannot_be_read_is_explained(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere.yaml: there is no such configuration file"):
        load_config(tmp_path / "nowhere.yaml", {})
    with pytest.raises(ConfigError, match="this is a folder"):
        load_config(tmp_path, {})
    (tmp_path / "latin.yaml").write_bytes(b"node: a\nnode: \xe9")
    with pytest.raises(ConfigError, match=r"latin.yaml, line 2: not UTF-8 text \(byte 14\)"):
        load_config(tmp_path / "latin.yaml", {})


def test_the_type_decides_what_a_plain_scalar_means() -> None:
    store = load("store: {access_key_id: 0123, secret_access_key: no, options: {allow_http: true}}").config.store
    assert store.access_key_id == "0123"
    assert store.secret_access_key is not None
    assert store.secret_access_key.get_secret_value() == "no"
    assert store.options == {"allow_http": "true"}


@pytest.mark.parametrize(
    ("topic", "name"),
    [
        ("Orders", "FRAZIL__TOPICS__ORDERS__ACK"),
        ("orders.eu-1", "FRAZIL__TOPICS__ORDERS_EU_1__ACK"),
        ("orders.eu-1", "FRAZIL__TOPICS__orders.eu-1__ACK"),
        ("a__b", "FRAZIL__TOPICS__A__B__ACK"),
    ],
)
def test_a_variable_finds_the_topic_of_the_file(topic: str, name: str) -> None:
    topics = load(f"topics: {{{topic}: {{linger_ms: 5}}}}", **{name: "object"}).config.topics
    assert list(topics) == [topic]
    assert (topics[topic].ack, topics[topic].linger_ms) == ("object", 5)


def test_a_variable_that_fits_two_topics_is_refused() -> None:
    assert problems("topics: {a.b: , a-b: }", FRAZIL__TOPICS__A_B__ACK="object") == [
        "topics: the name fits a.b and a-b; set this key in the file (FRAZIL__TOPICS__A_B__ACK)"
    ]


def test_a_variable_can_add_a_topic_in_lower_case() -> None:
    loaded = load("topics: {a: }", FRAZIL__TOPICS__ORDERS__ACK="object", FRAZIL__TOPICS__ORDERS__SEAL__MAX_MB="1")
    assert loaded.config.topics["orders"].ack == "object"
    assert list(loaded.config.topics) == ["a", "orders"]


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("FRAZIL__LOG", "log: is a section; set a key of it, such as FRAZIL__LOG__SYNC"),
        ("FRAZIL__", "unknown key; known keys here: data_dir"),
        ("FRAZIL__LOG__SYNC__NOW", "log.sync: has no keys below it, such as now"),
        ("FRAZIL__SERVER__HOST_FILE", "server.host_file: unknown key; did you mean server.host?"),
        ("FRAZIL__TOPICS__A", "topics.a: is a section"),
    ],
)
def test_a_variable_that_names_no_setting_is_refused(name: str, problem: str) -> None:
    (found,) = problems("", **{name: "x"})
    assert problem in found
    assert found.endswith(f"({name})")


def test_other_variables_and_empty_ones_are_left_alone() -> None:
    assert load("", FRAZIL_TEST_SEED="1", FRAZIL__LOG__SYNC="", PATH="/bin").config == Config()


def test_a_setting_given_by_two_variables_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    assert problems(
        "", FRAZIL__STORE__SESSION_TOKEN="x", FRAZIL__STORE__SESSION_TOKEN_FILE=str(tmp_path / "secret")
    ) == ["store.session_token: given twice (FRAZIL__STORE__SESSION_TOKEN and FRAZIL__STORE__SESSION_TOKEN_FILE)"]


def test_a_secret_can_come_from_a_file_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("  first\n")
    (tmp_path / "two").write_text("second\n")
    text = "store:\n  secret_access_key_file: one\n"
    by_file = load(text)
    by_environment = load(text, FRAZIL__STORE__SECRET_ACCESS_KEY_FILE=str(tmp_path / "two"))
    path = ("store", "secret_access_key")
    assert value_at(by_file.config, path) == "first"
    assert by_file.origins[path] == "frazil.yaml, line 2"
    assert value_at(by_environment.config, path) == "second"
    assert value_at(load(text, FRAZIL__STORE__SECRET_ACCESS_KEY="third").config, path) == "third"


def test_a_secret_file_that_is_of_no_use_is_reported(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "bytes").write_bytes(b"\xff")
    assert problems("store: {secret_access_key: a, secret_access_key_file: b}") == [
        "store.secret_access_key_file: secret_access_key is given too; keep one of them (frazil.yaml, line 1)"
    ]
    assert "its file 'empty' is empty" in problems("store: {session_token_file: empty}")[0]
    assert "cannot read its file 'bytes'" in problems("store: {session_token_file: bytes}")[0]
    assert "a list is not a path" in problems("store: {session_token_file: [a]}")[0]
    (problem,) = problems("", FRAZIL__STORE__SESSION_TOKEN_FILE="gone")
    assert problem.startswith("store.session_token: cannot read its file 'gone': No such file or directory")
    assert problem.endswith("(FRAZIL__STORE__SESSION_TOKEN_FILE)")


def test_no_message_tells_a_secret() -> None:
    found = problems(
        "store: {secret_acess_key: hunter2, secret_access_key: {a: hunter2}}", FRAZIL__STORE__TOKEN="hunter2"
    )
    assert len(found) == 3
    assert "hunter2" not in "".join(found)


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("id", ["id"]),
        ("day(time), bucket(16, id)", ["day(time)", "bucket(16, id)"]),
        (" a ,b,, ", ["a", "b"]),
        ("truncate(4, f(a, b)) desc nulls last, c", ["truncate(4, f(a, b)) desc nulls last", "c"]),
        ("a), b", ["a)", "b"]),
    ],
)
def test_a_list_can_be_text_with_commas(text: str, items: list[str]) -> None:
    by_environment = load("", FRAZIL__TOPICS__ORDERS__TABLE__PARTITION_BY=text).config
    assert by_environment.topics["orders"].table.partition_by == items
    assert load(f"topics: {{orders: {{table: {{partition_by: {json.dumps(text)}}}}}}}").config == by_environment
    assert load(f"topics: {{orders: {{table: {{partition_by: {json.dumps(items)}}}}}}}").config == by_environment


@pytest.mark.parametrize("text", ['["^a[.].*", "b"]', " ['^a[.].*', b]"])
def test_a_list_can_be_yaml_in_a_variable(text: str) -> None:
    environ = {"FRAZIL__KAFKA__BOOTSTRAP_SERVERS": "[a:1, b:2]", "FRAZIL__KAFKA__TOPICS": text}
    kafka = load("", **environ).config.kafka
    assert (kafka.bootstrap_servers, kafka.topics) == (["a:1", "b:2"], ["^a[.].*", "b"])


@pytest.mark.parametrize("text", ["[a", "[a] b", "[" * 100_000])
def test_a_list_that_only_begins_like_one_is_refused(text: str) -> None:
    (found,) = problems("kafka: {bootstrap_servers: a}", FRAZIL__KAFKA__TOPICS=text)
    assert found.startswith("kafka.topics: ")
    assert found.endswith("is not allowed; allowed: list of text (FRAZIL__KAFKA__TOPICS)")


def test_brokers_have_no_http_address() -> None:
    assert problems("kafka: {topics: a, bootstrap_servers: [b:1, 'HTTP://c:2/']}") == [
        "kafka.bootstrap_servers: brokers do not speak HTTP; write c:2, without HTTP:// (frazil.yaml, line 1)"
    ]


def test_a_list_that_is_none_is_explained() -> None:
    table = "topics: {orders: {table: {sort_by: %s}}}"
    assert problems(table % "{a: b}") == [
        "topics.orders.table.sort_by: a mapping is not allowed; allowed: list of text (frazil.yaml, line 1)"
    ]
    assert problems(table % "[a, [b]]") == [
        "topics.orders.table.sort_by.1: a list is not allowed; allowed: text (frazil.yaml, line 1)"
    ]


def test_a_name_with_dots_written_as_sections_is_explained() -> None:
    assert problems("pipeline: {spark: {spark: {master: local}}}") == [
        "pipeline.spark.spark: a mapping is not allowed; a name with dots is one key here, such as spark.master: … "
        "(frazil.yaml, line 1)"
    ]


def test_names_with_dots_are_one_key() -> None:
    text = (
        "pipeline:\n  spark:\n    spark.master: local[2]\n    spark.executor.cores: 2\n    spark.ui.enabled: false\n"
    )
    assert load(text).config.pipeline.spark == {
        "spark.master": "local[2]",
        "spark.executor.cores": "2",
        "spark.ui.enabled": "false",
    }
    given = {"pipeline": {"spark": {"spark.executor.cores": 2, "spark.ui.enabled": False}}}
    assert Config.model_validate(given).pipeline.spark == {"spark.executor.cores": "2", "spark.ui.enabled": "false"}


@pytest.mark.parametrize(
    ("variable", "path"),
    [
        ("PIPELINE__SPARK__SPARK_MASTER", ("pipeline", "spark", "spark.master")),
        ("PIPELINE__SPARK__SPARK__MASTER", ("pipeline", "spark", "spark.master")),
        ("pipeline__spark__spark_driver_maxResultSize", ("pipeline", "spark", "spark.driver.maxResultSize")),
        ("PIPELINE__SPARK__spark.sql.catalog.my_own", ("pipeline", "spark", "spark.sql.catalog.my_own")),
        ("LAKE__PROPERTIES__URI", ("lake", "properties", "uri")),
        ("LAKE__PROPERTIES__S3__ACCESS_KEY_ID", ("lake", "properties", "s3.access-key-id")),
        (
            "TOPICS__ORDERS__TABLE__PROPERTIES__WRITE__METADATA__PREVIOUS_VERSIONS_MAX",
            ("topics", "orders", "table", "properties", "write.metadata.previous-versions-max"),
        ),
        ("STORE__OPTIONS__ALLOW_HTTP", ("store", "options", "allow_http")),
    ],
)
def test_a_variable_gives_a_name_its_dots_and_dashes(variable: str, path: KeyPath) -> None:
    loaded = load("", **{f"FRAZIL__{variable}": "x"})
    assert value_at(loaded.config, path) == "x"
    assert loaded.origins[path] == f"FRAZIL__{variable}"


def test_a_variable_finds_the_name_in_the_file_whatever_its_spelling() -> None:
    text = "pipeline: {spark: {spark.driver.maxResultSize: 1g}}\nlake: {properties: {header.X-Realm: a}}\n"
    environ = {
        "FRAZIL__PIPELINE__SPARK__SPARK_DRIVER_MAXRESULTSIZE": "2g",
        "FRAZIL__LAKE__PROPERTIES__HEADER_X_REALM": "b",
    }
    config = load(text, **environ).config
    assert config.pipeline.spark == {"spark.driver.maxResultSize": "2g"}
    assert config.lake.properties == {"header.X-Realm": "b"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "topics:\n  logs:\n    table:\n      retention_days: 7\n",
            "topics.logs.table.retention_days: needs retention_column, the column that tells how old a row is "
            "(frazil.yaml, line 4)",
        ),
        (
            "kafka: {bootstrap_servers: localhost:9092, topics: [a]}\ntopics: {a: {table: {retention_gb: 7}}}",
            "topics.a.table.retention_gb: needs retention_column, the column that tells how old a row is "
            "(frazil.yaml, line 2)",
        ),
        (
            "topics: {a: {derived: {b: {sql: SELECT 1, retention_gb: 7}}}}",
            "topics.a.derived.b.retention_gb: needs retention_column, the column that tells how old a row is "
            "(frazil.yaml, line 1)",
        ),
        (
            "topics: {a: {table: {subscription_retention_days: 7}}}",
            "topics.a.table.subscription_retention_days: needs retention_days or retention_gb: without them all "
            "messages stay (frazil.yaml, line 1)",
        ),
        (
            "kafka: {bootstrap_servers: localhost:9092, topics: [orders, logs]}",
            "kafka.topics: logs is a topic of the doors for telemetry; leave it out, or set otlp.enabled, "
            "loki.enabled and prometheus.enabled to false (frazil.yaml, line 1)",
        ),
        (
            "topics: {a: {table: {compression: snappy, compression_level: 3}}}",
            "topics.a.table.compression_level: snappy has no levels; zstd and gzip have (frazil.yaml, line 1)",
        ),
        (
            "topics: {a: {derived: {b: {sql: SELECT 1, compression: gzip, compression_level: 10}}}}",
            "topics.a.derived.b.compression_level: gzip has levels from 1 to 9 (frazil.yaml, line 1)",
        ),
        (
            "iceberg: {compression: lz4}\ntopics: {a: {table: {compression_level: 3}}}",
            "topics.a.table.compression_level: lz4 has no levels; zstd and gzip have (frazil.yaml, line 2)",
        ),
        (
            "topics: {a: {format: {value: avro}}}",
            "topics.a.format.value: avro needs kafka.registry.url, the schema registry (frazil.yaml, line 1)",
        ),
        (
            "kafka: {topics: [a, ^b.*]}",
            "kafka.topics: needs kafka.bootstrap_servers, the brokers that have them (frazil.yaml, line 1)",
        ),
        (
            "kafka:\n  bootstrap_servers: localhost:9092\n",
            "kafka.bootstrap_servers: needs kafka.topics, the topics to read from them (frazil.yaml, line 2)",
        ),
        (
            "topics: {a: {table: {compression_level: 23}}}",
            "topics.a.table.compression_level: '23' is not allowed; allowed: whole number from 1 to 22 "
            "(frazil.yaml, line 1)",
        ),
        (
            "topics: {a: {derived: {b: {backfill: true}}}}",
            "topics.a.derived.b.sql: must be given; allowed: text (frazil.yaml, line 1)",
        ),
        (
            "topics: {a: {derived: {b.c: {sql: SELECT 1}}}}",
            'topics.a.derived."b.c": cannot be a table: use letters, digits, underscores and dashes '
            "(frazil.yaml, line 1)",
        ),
        (
            "pipeline: {spark: {driver.memory: 4g}}",
            'pipeline.spark."driver.memory": Spark\'s settings begin with `spark.`; did you mean '
            "spark.driver.memory? (frazil.yaml, line 1)",
        ),
        (
            "topics:\n  a:\n    table: {name: b}\n  b: {ack: object}\n",
            "topics.b.table: is the table frazil.b, but so is topics.a.table; give one another name "
            "(frazil.yaml, line 4)",
        ),
        (
            "lake: {namespace: x}\ntopics: {a: {derived: {a: {sql: SELECT 1}}}}\n",
            "topics.a.derived.a: is the table x.a, but so is topics.a.table; give one another name "
            "(frazil.yaml, line 2)",
        ),
    ],
)
def test_settings_that_do_not_fit_each_other_are_explained(text: str, problem: str) -> None:
    assert problems(text) == [problem]


def test_no_message_tells_a_password_in_an_address() -> None:
    found = problems(
        "lake: {properties: {uri: [postgresql://me:hunter2@db/lake], token: [hunter2]}}\n"
        "server: {port: 'http://me:hunter2@host'}\npipeline: {poll_interval_ms: '?password=hunter2'}\n"
    )
    assert len(found) == 4
    assert "hunter2" not in "".join(found)
    assert "server.port: 'http://me:********@host' is not allowed" in found[-1] + found[0] + found[1] + found[2]
