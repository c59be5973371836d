"""One model on several devices: a copy on each (DDP), or a piece of every matrix on each (FSDP2).

Both average gradients over the ranks. An update divides the summed loss by the tokens of all ranks,
so `Trainer` multiplies it by the number of ranks, and the gradient is that of one process.

PyTorch's FSDP2 takes over a second to import, so only what cuts a model does.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, TypeGuard

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from seq2seq.choices import Sharding
from seq2seq.config import RunConfig
from seq2seq.errors import UserError
from seq2seq.model.transformer import Transformer
from seq2seq.training.distributed import World

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor


def insist_on_heads(config: RunConfig, world: World) -> None:
    """Refuse to cut up attentions without any head: PyTorch cannot share matrices of no entry.

    Raises:
        UserError: names them.
    """
    if world.size == 1 or config.train.sharding is not Sharding.full:
        return
    bare = [
        f"{kind}.{layer}"
        for kind, (layers, _) in config.model.heads().items()
        for layer in range(layers)
        if not config.model.head_ids(kind, layer)
    ]
    if bare:
        raise UserError(
            f"train.sharding=full cannot cut up attentions without any head, here "
            f"{', '.join(bare)}: use train.sharding=none, which keeps a copy of the model on each."
        )


def parallelise(
    model: Transformer, device: torch.device, world: World, sharding: Sharding
) -> nn.Module:
    """Put `model` on the devices of all ranks.

    Args:
        model: on the CPU, with the same weights on all ranks.
        device: of this rank.
        world: all ranks.
        sharding: whether each keeps a piece of every matrix instead of a copy.

    Returns:
        The module to call in training, whose parameters are those of `model`: called on all ranks
        together, and differentiated on all of them.
    """
    if world.size > 1 and sharding is Sharding.full:
        _cut(model, device, world)
        return model
    model.to(device)
    if world.size == 1:
        return model
    # Positions are no weights, and every rank has its own table of them. PyTorch 2.13 has another
    # name for the option, which 2.6 does not know.
    warnings.filterwarnings("ignore", "`broadcast_buffers` is deprecated", FutureWarning)
    return DistributedDataParallel(model, broadcast_buffers=False, gradient_as_bucket_view=True)


def _cut(model: Transformer, device: torch.device, world: World) -> None:
    """Cut up the matrices of each layer, and then what is in none: embeddings, output, norms.

    A layer is put together again just before it computes, and dropped after it.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

    # A layer's keys and values are views, and nothing writes into them.
    warnings.filterwarnings("ignore", "FSDP2-wrapped module .* returned a view tensor")
    mesh = init_device_mesh(device.type, (world.size,))
    for layer in (*model.encoder.layers, *model.decoder.layers):
        fully_shard(layer, mesh=mesh)
    for layer in model.decoder.layers:  # which is called in two ways
        register_fsdp_forward_method(layer, "project_memory")
    fully_shard(model, mesh=mesh)


def sharing_gradients(module: nn.Module, *, now: bool) -> AbstractContextManager[None]:
    """Context of a forward and backward pass: whether DDP averages gradients over ranks in it.

    It is enough to do so in the last batch of an update. In pieces, gradients are shared in every
    batch, since a rank has no room for whole ones.
    """
    if isinstance(module, DistributedDataParallel) and not now:
        return module.no_sync()
    return nullcontext()


def is_piece(tensor: Tensor) -> TypeGuard[DTensor]:
    """Whether every rank has a piece of this tensor."""
    return hasattr(tensor, "full_tensor")


def whole(tensor: Tensor) -> Tensor:
    """A tensor put together from its pieces; others as they are. All ranks must call it."""
    return tensor.full_tensor() if is_piece(tensor) else tensor


def saved(tensor: Tensor, world: World) -> Tensor:
    """A tensor as rank 0 saves it: whole, and on the CPU, which has the room, if it was not."""
    if not is_piece(tensor):
        return tensor
    full = whole(tensor)
    return full.cpu() if world.is_main else full.new_empty(0)


def piece(tensor: Tensor, like: Tensor) -> Tensor:
    """This rank's piece of a whole tensor, cut as `like` is, if it is. All ranks must call it."""
    if not is_piece(like):
        return tensor
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(tensor.to(like.device), like.device_mesh, like.placements)


@torch.no_grad()
def whole_model(model: Transformer) -> Transformer:
    """The model itself; or, of one in pieces, a copy with all of its weights on every rank.

    All ranks must call it. Translating with the copy then needs no other rank.
    """
    parts = list(model.parameters())
    if not is_piece(parts[0]):
        return model
    copy = Transformer(model.config).to(parts[0].device)
    for parameter, part in zip(copy.parameters(), parts, strict=True):
        parameter.copy_(whole(part))
    return copy.train(model.training)


@torch.no_grad()
def fill(model: Transformer, weights: Iterable[Tensor]) -> None:
    """Set the parameters of a model, which may be in pieces, from whole ones."""
    for parameter, weight in zip(model.parameters(), weights, strict=True):
        parameter.copy_(piece(weight, parameter))


def whole_optimizer(optimizer: torch.optim.Optimizer, world: World) -> dict[str, Any]:
    """`optimizer.state_dict()` as rank 0 saves it: the same in pieces or not."""
    state = optimizer.state_dict()
    moments = {
        index: {name: saved(value, world) for name, value in own.items()}
        for index, own in state["state"].items()
    }
    return {**state, "state": moments}


def fill_optimizer(optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Take the moments of a saved state, but keep the settings that the optimizer has."""
    groups = optimizer.state_dict()["param_groups"]
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    moments = {
        index: {
            name: piece(value, parameters[index]) if value.dim() else value
            for name, value in own.items()
        }
        for index, own in state["state"].items()
    }
    optimizer.load_state_dict({"state": moments, "param_groups": groups})
