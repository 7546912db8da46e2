"""Make a torchvision model faster without any language model, and use the result in its place.

Shows `pike.optimize` on a live module and the drop-in that it returns. Takes about five minutes on a
GPU, ten on a CPU. Arguments are settings, for example `engine.max_hours=0.02`.
"""

import sys

import torch

import pike


def main(settings: list[str]) -> None:
    """Optimise ResNet-18 and compare the answers of the two models."""
    try:
        from torchvision.models import resnet18
    except ModuleNotFoundError:
        print("torchvision is not installed (pip install torchvision): a small ResNet of PIKE's own is used instead")
        done = pike.optimize("demo/resnet18:small", strategy="recipes", max_minutes=5, settings=settings)
        print(done)
        return

    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = resnet18().eval().to(device)
    images = torch.randn(1, 3, 224, 224, device=device)  # one at a time, as a service gets them

    done = pike.optimize(model, images, strategy="recipes", max_minutes=5, settings=settings)
    print(done)

    # The drop-in answers calls like the judged one; any other call is answered by the original.
    faster = done.module
    with torch.no_grad():
        difference = (faster(images) - model(images)).abs().max().item()
    print(f"largest difference: {difference:.1e}")
    print(f"every candidate with its verdict: {done.report()}")


if __name__ == "__main__":
    main(sys.argv[1:])
