"""Every part by name."""

from collections.abc import Mapping
from typing import Any

from plant.nn import losses
from plant.nn.decoders.block_attention import BlockAttention
from plant.nn.decoders.cross_attention import CrossAttention
from plant.nn.decoders.described import DescribedAttention
from plant.nn.decoders.interaction import Interaction
from plant.nn.decoders.joined import Joined
from plant.nn.decoders.joint_laat import JointLAAT
from plant.nn.decoders.label_attention import LabelAttention
from plant.nn.decoders.label_descriptions import LabelDescriptions
from plant.nn.decoders.lsan import LSAN
from plant.nn.decoders.planted import PlantedDecoder
from plant.nn.decoders.pooled import ChunkMaxPool, LastState, MaxPool, MeanPool
from plant.nn.decoders.window_pool import WindowPool
from plant.nn.encoders.awd_lstm import AWDLSTMEncoder
from plant.nn.encoders.cnn import CNN
from plant.nn.encoders.effective_can import EffectiveCAN
from plant.nn.encoders.embedding import Embedding
from plant.nn.encoders.multires import MultiRes
from plant.nn.encoders.nothing import Nothing
from plant.nn.encoders.recurrent import BiGRU, BiLSTM
from plant.nn.encoders.transformer import TransformerEncoder
from plant.nn.parts.protocols import Decoder, Encoder, Loss
from plant.registry import Registry

ENCODERS: Registry[Encoder] = Registry(
    "encoder",
    {
        "awd-lstm": AWDLSTMEncoder,
        "bigru": BiGRU,
        "bilstm": BiLSTM,
        "cnn": CNN,
        "effective-can": EffectiveCAN,
        "embedding": Embedding,
        "multires": MultiRes,
        "none": Nothing,
        "transformer": TransformerEncoder,
    },
)

DECODERS: Registry[Decoder] = Registry(
    "decoder",
    {
        "block-attention": BlockAttention,
        "chunk-max-pool": ChunkMaxPool,
        "cross-attention": CrossAttention,
        "described-attention": DescribedAttention,
        "interaction": Interaction,
        "joined": Joined,
        "joint-laat": JointLAAT,
        "label-attention": LabelAttention,
        "label-descriptions": LabelDescriptions,
        "last-state": LastState,
        "lsan": LSAN,
        "max-pool": MaxPool,
        "mean-pool": MeanPool,
        "planted": PlantedDecoder,
        "window-pool": WindowPool,
    },
)

LOSSES: Registry[Loss] = Registry(
    "loss",
    {
        "asymmetric": losses.Asymmetric,
        "balanced-bce": losses.BalancedBCE,
        "bce": losses.BCE,
        "described-bce": losses.DescribedBCE,
        "distribution-balanced": losses.DistributionBalanced,
        "focal": losses.Focal,
        "joint-bce": losses.JointBCE,
        "rebalanced": losses.Rebalanced,
    },
)

TABLES: Mapping[str, Registry[Any]] = {table.kind: table for table in (ENCODERS, DECODERS, LOSSES)}
