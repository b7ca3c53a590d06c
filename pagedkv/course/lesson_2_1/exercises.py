"""Exercises of lesson 2.1: K/V computed with and without a cache, bytes from a model's configuration, a reservation
slot by slot.
"""

from pagedkv.course.judge.exercise import Exercise, calls

# How often K and V are computed


def computed_without_cache(prompt, output):
    return sum(prompt + step for step in range(output))


def computed_with_cache(prompt, output):
    return prompt + output - 1


def _length_cases(random):
    yield from ((1, 1), (4, 8), (100, 1), (1, 100))
    for _ in range(6):
        yield random.randrange(2, 300), random.randrange(2, 300)


COMPUTED = Exercise("2.1-computed", "how often K and V are computed", (
    calls("without a cache", computed_without_cache, _length_cases, mistakes=(
        (lambda p, o: p * o, "each step reads the tokens generated before it as well, not only the prompt"),
        (lambda p, o: sum(p + t for t in range(o + 1)), "one step too many: `output` tokens take `output` steps"),
        (lambda p, o: sum(p + t for t in range(1, o + 1)),
         "step 0 reads the prompt alone; the first output token is its result"),
        (computed_with_cache,
         "this is the number with a cache; without one each step computes K and V of all tokens so far"),
        (lambda p, o: p * o + o - 1, "each step reads all tokens that were generated before it, not only the latest"),
        (lambda p, o: p + sum(range(o)), "the prompt is read in every step, not only in the first"),
    ), of=0),
    calls("with a cache", computed_with_cache, _length_cases, mistakes=(
        (lambda p, o: p + o, "the last token is never read, so its K and V are never computed"),
        (lambda p, o: o, "the prompt's K and V are computed too, once"),
        (computed_without_cache,
         "this is the number without a cache; with one, K and V of each token are computed once"),
        (lambda p, o: p * o + o - 1, "the prompt's K and V are kept after step 0, and not computed again"),
        (lambda p, o: p + sum(range(o)), "the K and V of generated tokens are kept too, and not computed again"),
    ), of=1),
))  # fmt: skip

# Bytes from config.json

CONFIGS = {
    "every head": dict(num_hidden_layers=40, num_attention_heads=40, hidden_size=5120, dtype="float16"),
    "grouped": dict(
        num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8, hidden_size=4096, dtype="bfloat16"
    ),
    "multi-query": dict(
        num_hidden_layers=60, num_attention_heads=71, num_key_value_heads=1, hidden_size=4544, dtype="float32"
    ),
    "wide heads": dict(
        num_hidden_layers=28,
        num_attention_heads=16,
        num_key_value_heads=8,
        hidden_size=1280,
        head_dim=128,
        dtype="bfloat16",
    ),
}
BYTES = {"float16": 2, "bfloat16": 2, "float32": 4}


def kv_bytes_per_token(config, factor=2, heads="num_key_value_heads", own_head_dim=True, dtype_bytes=None, layers=True):
    """The keyword arguments make the usual mistakes."""
    query_heads = config["num_attention_heads"]
    head_dim = config["hidden_size"] // query_heads
    if own_head_dim:
        head_dim = config.get("head_dim", head_dim)
    per_layer = factor * config.get(heads, query_heads) * head_dim * (dtype_bytes or BYTES[config["dtype"]])
    return per_layer * config["num_hidden_layers"] if layers else per_layer


def _config_mistakes(*without):
    mistakes = {
        "kv": (lambda c: kv_bytes_per_token(c, factor=1), "half of it is missing: K and V are both kept"),
        "layers": (
            lambda c: kv_bytes_per_token(c, layers=False),
            "this is one layer; every layer keeps K and V of its own",
        ),
        "dtype": (
            lambda c: kv_bytes_per_token(c, dtype_bytes=1),
            "this counts numbers; each takes the bytes of its dtype",
        ),
        "two": (
            lambda c: kv_bytes_per_token(c, dtype_bytes=2),
            "the bytes of a number depend on the dtype: 4 in float32",
        ),
        "heads": (
            lambda c: kv_bytes_per_token(c, heads="num_attention_heads"),
            "only KV heads are kept; query heads share them, and only their number gives a head_dim that is not stated",
        ),
        "dim": (
            lambda c: kv_bytes_per_token(c, own_head_dim=False),
            "where the configuration states head_dim, that is what counts",
        ),
        "both": (
            lambda c: kv_bytes_per_token(c, heads="num_attention_heads", own_head_dim=False),
            "count KV heads, not query heads, and take head_dim from the configuration where it is stated",
        ),
        "one": (
            lambda c: kv_bytes_per_token({"num_key_value_heads": 1} | c),
            "where num_key_value_heads is missing, every query head has K and V of its own",
        ),
        "half": (
            lambda c: (kv_bytes_per_token(c) + kv_bytes_per_token(c, heads="num_attention_heads")) // 2,
            "both K and V are kept for KV heads only",
        ),
    }
    return tuple(mistake for name, mistake in mistakes.items() if name not in without)


def _configs(*names, states=()):
    """The examples called `names`, then drawn ones that state the keys in `states` as well."""

    def draw(random):
        yield from (
            (CONFIGS[name] | stated,) for name in names for stated in ({}, dict(num_hidden_layers=12, dtype="float32"))
        )
        for _ in range(4):
            heads, dtype = random.choice((8, 12, 24, 48)), random.choice(tuple(BYTES))
            layers, hidden_size = random.randrange(6, 90), heads * random.choice((64, 80, 96))
            may_be_stated = {"num_key_value_heads": random.choice((1, 2, 4)), "head_dim": random.choice((32, 128))}
            yield (dict(num_hidden_layers=layers, num_attention_heads=heads, hidden_size=hidden_size, dtype=dtype)
                   | {key: may_be_stated[key] for key in states},)  # fmt: skip

    return draw


CONFIG = Exercise("2.1-config", "bytes per token from a configuration", (
    calls("K and V for every query head", kv_bytes_per_token, _configs("every head"),
          mistakes=_config_mistakes("heads", "dim", "both", "half")),
    calls("grouped queries", kv_bytes_per_token, _configs("grouped", "multi-query", states=("num_key_value_heads",)),
          mistakes=_config_mistakes("dim", "both", "one")),
    calls("a head_dim of its own", kv_bytes_per_token,
          _configs("wide heads", states=("num_key_value_heads", "head_dim")), mistakes=_config_mistakes("one")),
))  # fmt: skip

# A reservation, slot by slot


def reservation(max_seq_len, prompt, output, generated):
    return "T" * (prompt + generated) + "r" * (output - generated) + "." * (max_seq_len - prompt - output)


def _last_is_not_stored(max_seq_len, prompt, output, generated):
    return reservation(max_seq_len, prompt, max(output - 1, 0), max(generated - 1, 0))


def _reservation_cases(random):
    yield from ((12, 3, 4, 2), (8, 5, 3, 3), (10, 1, 2, 0), (6, 6, 0, 0))
    for _ in range(8):
        prompt, output = random.randrange(1, 30), random.randrange(1, 30)
        yield prompt + output + random.randrange(1, 40), prompt, output, random.randrange(output + 1)


RESERVATION = Exercise("2.1-reservation", "a reservation, slot by slot", (
    calls("slots with tokens, slots for later, slots never used", reservation, _reservation_cases, mistakes=(
        (lambda m, p, o, g: "T" * g + "r" * (o - g) + "." * (m - o),
         "the prompt's K and V are kept too: its slots come first"),
        (lambda m, p, o, g: "T" * (p + g) + "r" * (m - p - g),
         "not every idle slot will be used: `output - generated` tokens are to come"),
        (lambda m, p, o, g: "T" * (p + g) + "." * (m - p - g),
         "some idle slots will be used later by this request: they are reserved, r"),
        (lambda m, p, o, g: "T" * (p + o) + "." * (m - p - o),
         "only `generated` output tokens are there yet; the others are reserved, r"),
        (lambda m, p, o, g: "T" * (p + g) + "r" * o + "." * (m - p - g - o),
         "of the output, only what is not yet generated is reserved"),
        (lambda m, p, o, g: "T" * (p + g) + "r" * (o - g),
         "the reservation goes on to max_seq_len, whatever is used of it"),
        (lambda m, p, o, g: "T" * p + "r" * (o - g) + "T" * g + "." * (m - p - o),
         "tokens are stored from the first slot on, without a gap: what is reserved lies behind them"),
        (lambda m, p, o, g: "." * m if g == o else reservation(m, p, o, g),
         "when the last token is generated the request still holds its slots; here none of them has been given back"),
        (lambda m, p, o, g: reservation(m, p, o, min(g + 1, o)),
         "the token that is to come next has not been stored yet"),
        (_last_is_not_stored, "here the last token gets a slot too: T and r together are prompt + output letters"),
    )),
))  # fmt: skip

EXERCISES = (COMPUTED, CONFIG, RESERVATION)
