"""Every part by name, and where it is imported from when it is built: a list of names need not wait for torch."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from plant.registry import Importable, Registry

if TYPE_CHECKING:
    from plant.nn.parts.protocols import Decoder, Encoder, Loss

ENCODERS: "Registry[Encoder]" = Registry(
    "encoder",
    Importable(
        {
            "awd-lstm": "plant.nn.encoders.awd_lstm:AWDLSTMEncoder",
            "bigru": "plant.nn.encoders.recurrent:BiGRU",
            "bilstm": "plant.nn.encoders.recurrent:BiLSTM",
            "cnn": "plant.nn.encoders.cnn:CNN",
            "dense-cnn": "plant.nn.encoders.dense_cnn:DenseCNN",
            "effective-can": "plant.nn.encoders.effective_can:EffectiveCAN",
            "embedding": "plant.nn.encoders.embedding:Embedding",
            "headed-gru": "plant.nn.encoders.headed_gru:HeadedGRU",
            "multires": "plant.nn.encoders.multires:MultiRes",
            "none": "plant.nn.encoders.nothing:Nothing",
            "transformer": "plant.nn.encoders.transformer:TransformerEncoder",
        }
    ),
)

DECODERS: "Registry[Decoder]" = Registry(
    "decoder",
    Importable(
        {
            "attention-xml": "plant.nn.decoders.attention_xml:AttentionXML",
            "block-attention": "plant.nn.decoders.block_attention:BlockAttention",
            "chunk-max-pool": "plant.nn.decoders.pooled:ChunkMaxPool",
            "cross-attention": "plant.nn.decoders.cross_attention:CrossAttention",
            "described-attention": "plant.nn.decoders.described:DescribedAttention",
            "discnet": "plant.nn.decoders.discnet:DiscNet",
            "graph-attention": "plant.nn.decoders.graph_attention:GraphAttention",
            "hypercore": "plant.nn.decoders.hypercore:HyperCore",
            "interaction": "plant.nn.decoders.interaction:Interaction",
            "isd": "plant.nn.decoders.isd:ISD",
            "joined": "plant.nn.decoders.joined:Joined",
            "joint-laat": "plant.nn.decoders.joint_laat:JointLAAT",
            "label-attention": "plant.nn.decoders.label_attention:LabelAttention",
            "label-descriptions": "plant.nn.decoders.label_descriptions:LabelDescriptions",
            "last-state": "plant.nn.decoders.pooled:LastState",
            "lsan": "plant.nn.decoders.lsan:LSAN",
            "max-pool": "plant.nn.decoders.pooled:MaxPool",
            "mean-pool": "plant.nn.decoders.pooled:MeanPool",
            "msmn": "plant.nn.decoders.msmn:MSMN",
            "planted": "plant.nn.decoders.planted:PlantedDecoder",
            "window-pool": "plant.nn.decoders.window_pool:WindowPool",
        }
    ),
)

LOSSES: "Registry[Loss]" = Registry(
    "loss",
    Importable(
        {
            "asymmetric": "plant.nn.losses:Asymmetric",
            "balanced-bce": "plant.nn.losses:BalancedBCE",
            "bce": "plant.nn.losses:BCE",
            "described-bce": "plant.nn.losses:DescribedBCE",
            "distribution-balanced": "plant.nn.losses:DistributionBalanced",
            "focal": "plant.nn.losses:Focal",
            "joint-bce": "plant.nn.losses:JointBCE",
            "r-drop": "plant.nn.losses:RDrop",
            "rebalanced": "plant.nn.losses:Rebalanced",
            "reconciled-bce": "plant.nn.losses:ReconciledBCE",
            "self-distilled": "plant.nn.losses:SelfDistilled",
        }
    ),
)

TABLES: Mapping[str, Registry[Any]] = {table.kind: table for table in (ENCODERS, DECODERS, LOSSES)}
