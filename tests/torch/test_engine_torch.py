"""The numpy engine against the same model written in torch, gradients by autograd."""

import numpy as np
import pytest
import torch

from tinker_ext.mock.engine import AdamW, Adapter, BaseModel, Datum
from tinker_ext.mock.engine.layers import FAINTEST, FARTHEST, NEAREST, NORM_EPS
from tinker_ext.mock.engine.tiles import ROWS

pytestmark = pytest.mark.torch

VOCABULARY = 300
RANK = 4
PEFT = "base_model.model."


def adapted(base: BaseModel) -> Adapter:
    """An adapter away from its starting point, so that A has a gradient too."""
    adapter = Adapter(base, RANK, seed=2)
    rng = np.random.default_rng(0)
    state = adapter.state_dict()
    noisy = {k: v + 0.1 * rng.standard_normal(v.shape, dtype="f4") for k, v in state.items()}
    adapter.load_state_dict({k: v.astype(np.float32) for k, v in noisy.items()})
    return adapter


def rms(x):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + NORM_EPS)


class Reference:
    """The model in plain torch operations, one sequence at a time, no tiles, no cache."""

    def __init__(self, base: BaseModel, state: dict[str, np.ndarray]):
        self.config = base.config
        self.embedding = torch.tensor(np.array(base.embedding))
        self.bias = torch.tensor(base.bias.reshape(-1)[: base.vocab_size].copy())
        self.base = {}
        for name, value in base.weights.items():
            matrix = (
                value.transpose(1, 0, 2).reshape(value.shape[1], -1) if value.ndim == 3 else value
            )
            columns = base.vocab_size if value.ndim == 3 else matrix.shape[1]
            self.base[name] = torch.tensor(matrix[:, :columns].copy())
        self.lora = {
            name: torch.tensor(value.astype(np.float64), requires_grad=True)
            for name, value in state.items()
        }

    def weight(self, name):
        full = PEFT + ("" if name == "lm_head" else "model.") + name
        a, b = self.lora[full + ".lora_A.weight"], self.lora[full + ".lora_B.weight"]
        return self.base[name] + 32.0 / RANK * (b @ a).T

    def hidden_keys(self, n):
        position = torch.arange(n)
        distance = position[:, None] - position[None, :]
        first = (position // ROWS + 1) * ROWS - self.config.window
        slopes = torch.tensor(np.geomspace(NEAREST, FARTHEST, self.config.n_heads))
        bias = -slopes[:, None, None] * distance
        seen = (distance >= 0) & (position[None, :] >= first[:, None]) & (bias >= FAINTEST)
        return torch.where(seen, bias, -torch.inf)

    def logprobs(self, tokens, targets):
        c, n = self.config, len(tokens)
        x = self.embedding[torch.tensor(tokens)]
        bias = self.hidden_keys(n)
        for layer in range(c.n_layers):
            attn, mlp = f"layers.{layer}.self_attn.", f"layers.{layer}.mlp."
            h = rms(x)
            q, k, v = (
                (h @ self.weight(attn + p)).reshape(n, c.n_heads, c.head_dim).transpose(0, 1)
                for p in ("q_proj", "k_proj", "v_proj")
            )
            probs = torch.softmax(q @ k.transpose(1, 2) * c.head_dim**-0.5 + bias, dim=-1)
            x = x + (probs @ v).transpose(0, 1).reshape(n, -1) @ self.weight(attn + "o_proj")
            up = torch.relu(rms(x) @ self.weight(mlp + "up_proj"))
            x = x + (up * up) @ self.weight(mlp + "down_proj")
        table = torch.log_softmax(rms(x) @ self.weight("lm_head") + self.bias, dim=-1)
        return table[torch.arange(n), torch.tensor(targets)]


def torch_loss(name, p, inputs):
    """The losses as the documentation prints them."""
    weights, a, q = (torch.tensor(inputs[k]) for k in ("weights", "advantages", "logprobs"))
    ratio = torch.exp(p - q)
    if name == "cross_entropy":
        return -(weights * p).sum()
    if name == "importance_sampling":
        return -(ratio * a).sum()
    if name == "ppo":
        return -torch.minimum(ratio * a, torch.clamp(ratio, 0.8, 1.2) * a).sum()
    if name == "cispo":
        return -(torch.clamp(ratio, 0.8, 1.2).detach() * p * a).sum()
    if name == "dro":
        return -(p * a - 0.5 * 0.05 * (p - q) ** 2).sum()
    sequence = (p - q).detach().mean()
    ratio = torch.exp(sequence + p - p.detach())
    return -torch.minimum(ratio * a, torch.clamp(ratio, 0.8, 1.2) * a).sum()


@pytest.fixture(scope="module")
def base():
    return BaseModel.create("torch/reference", VOCABULARY, dtype=np.float64)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    return [
        Datum(
            rng.integers(0, VOCABULARY, n),
            {
                "target_tokens": rng.integers(0, VOCABULARY, n),
                "weights": rng.standard_normal(n),
                "advantages": rng.standard_normal(n),
                "logprobs": rng.normal(-5.7, 0.4, n),
            },
        )
        for n in (3, 64, 290)
    ]


@pytest.mark.parametrize(
    "loss", ["cross_entropy", "importance_sampling", "ppo", "cispo", "dro", "gspo"]
)
def test_loss_and_gradients_match_autograd(base, data, loss):
    """M40: losses to 1e-9 and every adapter gradient to 1e-6 of its size."""
    adapter = adapted(base)
    reference = Reference(base, adapter.state_dict())
    total = torch.tensor(0.0, dtype=torch.float64)
    outputs = adapter.forward_backward(data, loss)
    for datum, output in zip(data, outputs.loss_fn_outputs, strict=True):
        p = reference.logprobs(datum.tokens, datum.inputs["target_tokens"])
        np.testing.assert_allclose(output["logprobs"], p.detach().numpy(), rtol=1e-9)
        total = total + torch_loss(loss, p, datum.inputs)
    total.backward()
    assert outputs.loss == pytest.approx(total.item(), rel=1e-9)
    adapter.optim_step(AdamW(learning_rate=0.0, beta1=0.0))
    moments = adapter.state_dict(optimizer=True)
    for name, parameter in reference.lora.items():
        gradient = parameter.grad.numpy()
        got = moments[f"optimizer.exp_avg.{name}"]
        np.testing.assert_allclose(got, gradient, atol=1e-6 * np.abs(gradient).max(), err_msg=name)


def test_adamw_matches_torch():
    """M40: three steps of AdamW with decay, the same parameters to 1e-9."""
    from tinker_ext.mock.engine.optim import OptimizerState

    rng = np.random.default_rng(1)
    values = rng.standard_normal(30)
    parameter = torch.tensor(values.copy(), requires_grad=True)
    optimizer = torch.optim.AdamW(
        [parameter], lr=0.01, betas=(0.9, 0.95), eps=1e-12, weight_decay=0.1
    )
    state = OptimizerState(30, values.dtype)
    for _ in range(3):
        gradient = rng.standard_normal(30)
        parameter.grad = torch.tensor(gradient.copy())
        optimizer.step()
        state.apply(values, gradient, AdamW(learning_rate=0.01, weight_decay=0.1), {}, {})
    np.testing.assert_allclose(values, parameter.detach().numpy(), rtol=1e-9)
