"""Make a Hugging Face model faster, called by keyword as its library calls it.

Shows keyword inputs, a precision that allows 16-bit arithmetic, and that the drop-in keeps `.config`
and the weights' names. The model is made from a configuration, so nothing is downloaded. Takes about
five minutes. Arguments are settings, for example `engine.max_hours=0.02`.
"""

import sys

import torch

import pike


def main(settings: list[str]) -> None:
    """Optimise a small BERT and look at what came of it."""
    try:
        from transformers import BertConfig, BertModel
    except ModuleNotFoundError:
        sys.exit("This example needs transformers: pip install transformers")

    device = "cuda" if torch.cuda.is_available() else "cpu"
    config = BertConfig(
        vocab_size=1000, hidden_size=64, num_hidden_layers=1, num_attention_heads=4, intermediate_size=256
    )
    model = BertModel(config).eval().to(device)
    inputs = {
        "input_ids": torch.randint(0, config.vocab_size, (4, 64), device=device),
        "attention_mask": torch.ones(4, 64, dtype=torch.int64, device=device),
    }

    done = pike.optimize(model, inputs, strategy="recipes", precision="half", max_minutes=5, settings=settings)
    print(done)

    faster = done.module
    with torch.no_grad():
        hidden = faster(**inputs).last_hidden_state
    print(f"output {tuple(hidden.shape)}, hidden size {faster.config.hidden_size}")
    print(f"same weights: {list(faster.state_dict()) == list(model.state_dict())}")


if __name__ == "__main__":
    main(sys.argv[1:])
