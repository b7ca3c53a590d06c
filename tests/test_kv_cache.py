import pytest

torch = pytest.importorskip("torch")

from pagedkv.block_pool import BlockPool  # noqa: E402
from pagedkv.block_table import BlockTable  # noqa: E402
from pagedkv.device_tables import DeviceBlockTables, pack_block_tables  # noqa: E402
from pagedkv.kv_cache import PagedKVCache  # noqa: E402
from pagedkv.sizing import KVShape  # noqa: E402

SHAPE = KVShape(num_layers=2, num_kv_heads=2, head_dim=8)
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


def kv(n, dtype=torch.float16, device="cpu", seed=0):
    torch.manual_seed(seed)
    return torch.randn(2, n, 2, 8, device=device).to(dtype)


def snapshot(cache):
    return cache.k.clone(), cache.v.clone()


def unchanged(cache, before):
    return torch.equal(cache.k, before[0]) and torch.equal(cache.v, before[1])


@pytest.mark.parametrize("device", DEVICES)
def test_what_is_written_through_a_table_is_read_back_in_order(device):
    cache = PagedKVCache(SHAPE, 8, 4, device)
    pool = BlockPool(8, 4)
    other, table = BlockTable(pool), BlockTable(pool)
    for n in (3, 4, 1, 5):
        other.append(2)
        k, v = kv(n, device=device, seed=n)
        cache.write(1, k, v, torch.tensor(table.append(n).slots, device=device))
    k, v = cache.gather(1, table.token_slots())
    expected = torch.cat([kv(n, device=device, seed=n) for n in (3, 4, 1, 5)], 1)
    assert torch.equal(torch.stack([k, v]), expected)
    address = table.translate(6)
    assert torch.equal(cache.k[1][address.physical_block, address.offset], expected[0, 6])
    assert cache.k[0].count_nonzero() == 0


def test_layout():
    cache = PagedKVCache(SHAPE, 3, 4)
    for layer in range(2):
        for tensor in (cache.k[layer], cache.v[layer]):
            assert tensor.shape == (3, 4, 2, 8)
            assert tensor.is_contiguous()
            assert tensor.dtype == torch.float16 and tensor.device.type == "cpu"
            assert tensor.data_ptr() % 16 == 0


@pytest.mark.parametrize("device", DEVICES)
def test_padding_is_skipped(device):
    cache = PagedKVCache(KVShape(1, 1, 1, dtype_bytes=4), 3, 4, device, torch.float32)
    rows = torch.tensor([1.0, 9.0], device=device).reshape(2, 1, 1)
    cache.write(0, rows, rows, torch.tensor([0, -1], device=device))
    expected = torch.zeros(3, 4, device=device)
    expected[0, 0] = 1
    assert torch.equal(cache.k[0][..., 0, 0], expected)
    assert torch.equal(cache.v[0][..., 0, 0], expected)
    cache.write(0, rows, rows, torch.tensor([-1, -1], device=device))
    cache.write(0, rows[:0], rows[:0], torch.tensor([], dtype=torch.int64, device=device))
    assert torch.equal(cache.k[0][..., 0, 0], expected)


def test_of_two_tokens_in_one_slot_one_is_stored():
    cache = PagedKVCache(SHAPE, 2, 4)
    k, v = kv(2)
    cache.write(0, k, v, torch.tensor([5, 5]))
    stored = cache.gather(0, [5])[0][0]
    assert any(torch.equal(stored, token) for token in k)


DTYPES = [(torch.float8_e4m3fn, 1), (torch.bfloat16, 2), (torch.float32, 4), (torch.float64, 8)]


@pytest.mark.parametrize(("dtype", "size"), DTYPES)
def test_dtypes(dtype, size):
    cache = PagedKVCache(KVShape(2, 2, 8, dtype_bytes=size), 4, 4, dtype=dtype)
    k, v = kv(5, dtype)
    slots = torch.tensor([3, 9, -1, 0, 15])
    cache.write(1, k, v, slots)
    cache.copy_blocks([(0, 1)])
    got = cache.gather(1, [3, 9, 15, 7])
    assert got[0].dtype == dtype
    for stored, tokens in zip(got, (k, v), strict=True):
        assert torch.equal(stored.float(), tokens[[0, 1, 4, 0]].float())
    assert sum(tensor.nbytes for tensor in (cache.k, cache.v)) == 16 * cache.shape.bytes_per_token


def test_strided_k_and_v():
    cache = PagedKVCache(SHAPE, 4, 4)
    both = torch.randn(5, 2, 2, 8).half()  # one buffer [tokens, K or V, heads, dim], as a fused projection gives it
    cache.write(0, both[:, 0], both[:, 1], torch.arange(5))
    k, v = cache.gather(0, list(range(5)))
    assert torch.equal(torch.stack([k, v], 1), both)


@pytest.mark.parametrize("device", DEVICES)
def test_copies_are_as_if_made_one_after_the_other(device):
    for pairs in (
        [(0, 3)],
        [(0, 1), (1, 2)],
        [(0, 1), (1, 0)],
        [(0, 1), (2, 1)],
        [(3, 3)],
        [(2, 0), (0, 1), (3, 2), (2, 3)],
        [],
    ):
        cache, one_by_one = PagedKVCache(SHAPE, 4, 4, device), PagedKVCache(SHAPE, 4, 4, device)
        for target in (cache, one_by_one):
            for layer in range(2):
                target.write(layer, *kv(16, device=device, seed=layer), torch.arange(16, device=device))
        cache.copy_blocks(pairs)
        for source, destination in pairs:
            one_by_one.k[:, destination] = one_by_one.k[:, source].clone()
            one_by_one.v[:, destination] = one_by_one.v[:, source].clone()
        assert unchanged(cache, snapshot(one_by_one)), pairs


@pytest.mark.parametrize("shape", [KVShape(80, 64, 128), KVShape(1000, 1000, 256)])
def test_a_cache_beyond_memory_is_told_with_its_size(shape):
    gb = (2**31 - 1) * 256 * shape.bytes_per_token / 1e9
    with pytest.raises(MemoryError, match=f"num_blocks .* 2,147,483,647 of 256 tokens take {gb:,.1f} GB"):
        PagedKVCache(shape, 2**31 - 1, 256)


def test_copy_on_write_keeps_both_readers_right():
    cache, pool = PagedKVCache(SHAPE, 8, 4), BlockPool(8, 4)
    a = BlockTable(pool)
    k, v = kv(8)
    cache.write(0, k[:6], v[:6], torch.tensor(a.append(6).slots))
    b = a.fork()
    for table, row in ((b, 6), (a, 7)):
        slots, copies = table.append(1)
        cache.copy_blocks(copies)
        cache.write(0, k[row : row + 1], v[row : row + 1], torch.tensor(slots))
    for table, rows in ((a, [0, 1, 2, 3, 4, 5, 7]), (b, [0, 1, 2, 3, 4, 5, 6])):
        assert torch.equal(cache.gather(0, table.token_slots())[0], k[rows])


def test_a_shuffled_pool_reads_the_same():
    cache, pool = PagedKVCache(SHAPE, 8, 4), BlockPool(8, 4)
    table = BlockTable(pool)
    k, v = kv(14)
    cache.write(0, k, v, torch.tensor(table.append(14).slots))
    moved = torch.tensor([5, 3, 7, 6, 1, 0, 2, 4])  # block i moves to moved[i]
    for tensor in (cache.k, cache.v):
        tensor[:, moved] = tensor.clone()
    slots = [moved[block].item() * 4 + offset for block in table.blocks for offset in range(4)][:14]
    got = cache.gather(0, slots)
    assert torch.equal(got[0], k) and torch.equal(got[1], v)


def write_cases():
    k, v = kv(2)
    slots = torch.tensor([0, 1])
    good = dict(layer=0, k=k, v=v, slot_mapping=slots)
    yield from (
        (ValueError, "layer", good | dict(layer=2)),
        (TypeError, "layer", good | dict(layer=True)),
        (TypeError, "slot_mapping must be int64, not torch.int32", good | dict(slot_mapping=slots.int())),
        (TypeError, "slot_mapping must be int64, not torch.float32", good | dict(slot_mapping=slots.float())),
        (ValueError, "slot_mapping must be from -1 to 15, not 16", good | dict(slot_mapping=torch.tensor([0, 16]))),
        (ValueError, "slot_mapping must be from -1 to 15, not -2", good | dict(slot_mapping=torch.tensor([0, -2]))),
        (ValueError, "slot_mapping .* most 15, not 16", good | dict(slot_mapping=[0, 16])),
        (TypeError, "slot_mapping must be an iterable of slots, not 3", good | dict(slot_mapping=3)),
        (TypeError, "slot_mapping must be an iterable of slots, not None", good | dict(slot_mapping=None)),
        (TypeError, "slot_mapping .* not 1.0", good | dict(slot_mapping=[0, 1.0])),
        (ValueError, "slot_mapping must have one dimension", good | dict(slot_mapping=slots[None])),
        (ValueError, "slot_mapping must be on cpu, not meta", good | dict(slot_mapping=slots.to("meta"))),
        (ValueError, r"k must be \[3, 2, 8\], not \[2, 2, 8\]", good | dict(slot_mapping=torch.tensor([0, 1, 2]))),
        (ValueError, r"v must be \[2, 2, 8\], not \[1, 2, 8\]", good | dict(v=v[:1])),
        (ValueError, r"k must be \[2, 2, 8\], not \[2, 1, 8\]", good | dict(k=k[:, :1])),
        (ValueError, r"k must be \[2, 2, 8\], not \[2, 16\]", good | dict(k=k.flatten(1))),
        (TypeError, "v must be a torch.float16 tensor, not torch.float32", good | dict(v=v.float())),
        (TypeError, "k must be a torch.float16 tensor", good | dict(k=k.tolist())),
        (ValueError, "k must be on cpu, not meta", good | dict(k=k.to("meta"))),
    )


@pytest.mark.parametrize(("error", "message", "arguments"), [*write_cases()])
def test_a_bad_write_changes_nothing(error, message, arguments):
    cache = PagedKVCache(SHAPE, 4, 4)
    cache.write(0, *kv(16), torch.arange(16))
    before = snapshot(cache)
    with pytest.raises(error, match=message):
        cache.write(**arguments)
    assert unchanged(cache, before)


@pytest.mark.parametrize(
    ("slots", "error"), [([16], ValueError), ([-1], ValueError), ([0.0], TypeError), ([True], TypeError)]
)
def test_gather_wants_slots_of_the_cache(slots, error):
    with pytest.raises(error, match="token_slots"):
        PagedKVCache(SHAPE, 4, 4).gather(0, slots)
    if error is ValueError:
        with pytest.raises(error, match="token_slots"):
            PagedKVCache(SHAPE, 4, 4).gather(0, torch.tensor(slots))


@pytest.mark.parametrize(
    ("pairs", "error"),
    [
        ([(0, 4)], ValueError),
        ([(1, 2), (-1, 0)], ValueError),
        ([(0, 1.0)], TypeError),
        (None, TypeError),
        ([(1, 2), 0], TypeError),
        ([(1, 2), (0,)], ValueError),
        ([(1, 2, 3)], ValueError),
    ],
)
def test_copy_blocks_wants_blocks_of_the_cache(pairs, error):
    cache = PagedKVCache(SHAPE, 4, 4)
    cache.write(0, *kv(16), torch.arange(16))
    before = snapshot(cache)
    with pytest.raises(error, match="pairs"):
        cache.copy_blocks(pairs)
    assert unchanged(cache, before)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (dict(dtype=torch.float32), ValueError, "dtype must have the 2 bytes"),
        (dict(dtype=torch.int16), TypeError, "dtype must be one of torch.float16"),
        *(
            (dict(shape=KVShape(1, 1, 16, dtype_bytes=1), dtype=dtype), TypeError, f"float8_e4m3fn, not {dtype}")
            for dtype in (torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e8m0fnu, torch.float4_e2m1fn_x2)
        ),
        (dict(dtype="float16"), TypeError, "dtype must be one of torch.float16"),
        (dict(num_blocks=0), ValueError, "num_blocks"),
        (dict(block_size=1.5), TypeError, "block_size"),
        (dict(shape=(2, 2, 8)), TypeError, "shape must be a KVShape"),
    ],
)
def test_bad_caches(arguments, error, message):
    with pytest.raises(error, match=message):
        PagedKVCache(**dict(shape=SHAPE, num_blocks=4) | arguments)


@pytest.mark.gpu
def test_slots_on_a_gpu_are_checked_on_request():
    cache = PagedKVCache(SHAPE, 4, 4, "cuda")
    with pytest.raises(ValueError, match="slot_mapping must be from -1 to 15, not 16"):
        cache.write(0, *kv(1, device="cuda"), torch.tensor([16], device="cuda"), validate=True)
    with pytest.raises(ValueError, match="slot_mapping must be on cuda:0, not cpu"):
        cache.write(0, *kv(1, device="cuda"), torch.tensor([1]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float8_e4m3fn], ids=str)
def test_blocks_on_their_way_between_two_devices_are_those_that_were_asked_for(dtype):
    """The staged way, which between a GPU and the host leads through pinned memory, walked on a CPU."""
    cache = PagedKVCache(KVShape(2, 2, 16, dtype.itemsize), 5, 4, dtype=dtype)
    for side in (cache.k, cache.v):
        side.copy_(torch.randn(side.shape).to(dtype))
    for blocks in ([3], [4, 0, 4, 2]):
        plain, staged = (cache._gathered(blocks, torch.device("cpu"), staged) for staged in (False, True))
        assert staged.dtype == dtype and torch.equal(plain.view(torch.uint8), staged.view(torch.uint8))


@pytest.mark.gpu
def test_blocks_come_back_from_the_host_as_they_went():
    there, here = (PagedKVCache(KVShape(2, 2, 16, 4), 5, 4, device, torch.float32) for device in ("cpu", "cuda"))
    here.k.normal_(), here.v.normal_()
    before = here.k.clone(), here.v.clone()
    there.copy_blocks([(3, 0), (1, 4)], source=here)
    assert torch.equal(there.k[:, [0, 4]], before[0][:, [3, 1]].cpu())
    here.copy_blocks([(0, 1), (4, 3)], source=there)
    assert torch.equal(here.v[:, [1, 3]], before[1][:, [3, 1]])


@pytest.mark.parametrize("device", ["nonsense", "cuda:99", -1, 2**63])
@pytest.mark.parametrize(
    "make",
    [
        lambda device: PagedKVCache(KVShape(1, 1, 16), 2, 4, device),
        lambda device: DeviceBlockTables(2, 4, device),
        lambda device: pack_block_tables([], device),
    ],
)
def test_a_device_that_is_not_here_is_named(make, device):
    with pytest.raises(ValueError, match="^device must name one of this machine's, not "):
        make(device)


@pytest.mark.parametrize("dtype", [torch.bfloat16, None])
def test_blocks_come_from_a_cache_of_the_same_kind_only(dtype):
    cache = PagedKVCache(KVShape(1, 1, 16), 2, 4)
    other = 3 if dtype is None else PagedKVCache(KVShape(1, 1, 16), 2, 4, dtype=dtype)
    with pytest.raises((TypeError, ValueError), match="^source must be a"):
        cache.copy_blocks([(0, 1)], other)
