"""Temporary."""
from pathlib import Path
import json
from servecast.model.architecture import *
from servecast.hardware.errors import ConfigError, did_you_mean
F=Path('/work/shared/data/facts/models')
def model_keys(): return sorted(f.stem.lower() for f in F.glob('*.json'))
def load_architecture(key, base_dir=None):
    for f in F.glob('*.json'):
        if f.stem.lower()==key:
            c=json.loads(f.read_text())
            h=c['num_attention_heads']; hd=c.get('head_dim') or c['hidden_size']//h
            L=Layer(Attention(h,c.get('num_key_value_heads') or h,hd),DenseMlp(c['intermediate_size']))
            return Architecture(key,f.stem,c['hidden_size'],c['vocab_size'],c.get('tie_word_embeddings',False),(L,)*c['num_hidden_layers'],c['max_position_embeddings'])
    raise ConfigError(f"unknown model {key!r}", hint=did_you_mean(key, model_keys()))
