"""Gathers what the templates print: one plan for each model, enumeration, named union and call.

The generator's parser supplies names and types. What it loses on the way (defaults of lists,
discriminators, media types, vendor extensions) is read from the document itself.
"""

from __future__ import annotations

import builtins
import re
from collections import Counter
from collections.abc import Iterator
from keyword import iskeyword
from typing import Any

from attrs import evolve
from openapi_python_client.parser import GeneratorData
from openapi_python_client.parser.properties.const import ConstProperty
from openapi_python_client.parser.properties.list_property import ListProperty
from openapi_python_client.parser.properties.literal_enum_property import LiteralEnumProperty
from openapi_python_client.parser.properties.model_property import ModelProperty
from openapi_python_client.parser.properties.union import UnionProperty
from openapi_python_client.strings import ClassName, PythonIdentifier, snake_case

from codegen.document import follow, operations, property_schema, ref_name
from codegen.entries import (
    AnswerPlan,
    ArgumentPlan,
    CallPlan,
    FieldPlan,
    ModelPlan,
    RowPlan,
    TablePlan,
    UnionPlan,
)
from codegen.shapes import Shape, Shapes, leaves

RESERVED = frozenset({"additional_properties", "from_dict", "models", "to_dict"})
ANNOTATIONS = frozenset(
    {"bool", "bytes", "classmethod", "dict", "float", "int", "list", "str", "tuple"}
)
CALL_ARGUMENTS = frozenset({"client", "body", "timeout", "self"})
SECRET = re.compile(
    r"(^|_)(jwt|secret|password|api_key|apikey|credential|access_token)s?($|_)", re.I
)


class Plan:
    """Everything the templates need for one document."""

    def __init__(self, document: dict[str, Any], data: GeneratorData) -> None:
        self.document = document
        self.data = data
        models = {str(model.class_info.name): model for model in data.models}
        self._models = models
        self._components: dict[str, dict[str, Any]] = {}
        for name, schema in document["components"]["schemas"].items():
            self._components.setdefault(str(ClassName(name, "")), schema)
        sent, received = self._reachable()
        self._request_classes = sent | (models.keys() - received)
        enums = {str(enum.class_info.name) for enum in data.enums}
        self.shapes = Shapes(
            models=models,
            maps=frozenset(name for name, model in models.items() if self._is_map(name, model)),
            open_enums=frozenset(enums & (received | (enums - sent))),
            rules=self._rules(),
            aliases=self._aliases(),
            empty=self._empty(),
            enum_order=self._enum_order(),
            unions={
                frozenset(members): str(ClassName(name, ""))
                for name, members in self._named_unions()
            },
        )
        self.models = {
            name: self._model(model)
            for name, model in models.items()
            if name not in self.shapes.maps
        }
        self.unions = self._unions()

    def _is_map(self, name: str, model: ModelProperty) -> bool:
        if model.required_properties or model.optional_properties:
            return False
        component = self._components.get(name)
        return component is None or component.get("additionalProperties", False) is not False

    def _enum_order(self) -> dict[str, tuple[str | int, ...]]:
        listed = [
            tuple(node["enum"])
            for node in walk(self.document)
            if isinstance(node.get("enum"), list)
        ]
        order: dict[str, tuple[str | int, ...]] = {}
        for enum in self.data.enums:
            for values in listed:
                known = tuple(value for value in values if value is not None)
                if isinstance(enum, LiteralEnumProperty) and set(known) == set(enum.values):
                    order.setdefault(str(enum.class_info.name), known)
        return order

    def _rules(self) -> dict[frozenset[str], tuple[tuple[str, str | None, str], ...]]:
        found = {}
        for schema in self.document["components"]["schemas"].values():
            sentences = schema.get("x-decision-order")
            if not sentences:
                continue
            members = schema.get("oneOf") or schema.get("anyOf")
            names = frozenset(str(ClassName(ref_name(member), "")) for member in members)
            rows = [row for sentence in sentences if (row := decision(sentence)) is not None]
            found[names] = tuple(rows)
        return found

    def _aliases(self) -> tuple[tuple[str, str], ...]:
        """Return (tag, class) for each operation that yields a class, by its id and its tag."""
        found: dict[tuple[str, str], None] = {}
        for _, _, operation in operations(self.document):
            how = operation.get("x-tinker-call")
            if isinstance(how, dict) and "yields" in how:
                name = str(ClassName(how["yields"], ""))
                found[str(operation.get("operationId")), name] = None
        return tuple(found)

    def _empty(self) -> frozenset[str]:
        """Return the classes that an empty object may be."""
        return frozenset(
            str(ClassName(name, ""))
            for schema in self.document["components"]["schemas"].values()
            for name in schema.get("x-empty-results", ())
        )

    def _reachable(self) -> tuple[set[str], set[str]]:
        """Return the class names that requests and responses may hold."""
        sent: set[str] = set()
        received: set[str] = set()
        for collection in self.data.endpoint_collections_by_tag.values():
            for endpoint in collection.endpoints:
                for prop in endpoint.list_all_parameters():
                    self._collect(prop, sent)
                for response in endpoint.responses:
                    self._collect(response.prop, received)
        return sent, received

    def _collect(self, prop: Any, into: set[str]) -> None:
        if isinstance(prop, ListProperty):
            self._collect(prop.inner_property, into)
        elif isinstance(prop, UnionProperty):
            for member in leaves(prop):
                self._collect(member, into)
        elif isinstance(prop, LiteralEnumProperty):
            into.add(str(prop.class_info.name))
        elif isinstance(prop, ModelProperty):
            name = str(prop.class_info.name)
            if name in into:
                return
            into.add(name)
            model = self._models.get(name, prop)
            inner = [*(model.required_properties or []), *(model.optional_properties or [])]
            for item in [*inner, model.additional_properties]:
                if item is not None:
                    self._collect(item, into)

    def _model(self, model: ModelProperty) -> ModelPlan:
        name = str(model.class_info.name)
        schema = self._components.get(name) or model.data.model_dump(
            mode="json", by_alias=True, exclude_unset=True
        )
        order = list(property_names(self.document, schema))
        props = [*(model.required_properties or []), *(model.optional_properties or [])]
        props.sort(
            key=lambda prop: order.index(text(prop.name)) if text(prop.name) in order else 999
        )
        request = name in self._request_classes
        fields = tuple(self._field(prop, schema, request=request) for prop in props)
        return ModelPlan(
            name=name,
            module=model.class_info.module_name,
            description=text(model.description),
            open=bool(schema.get("additionalProperties")),
            fields=fields,
        )

    def _field(self, prop: Any, schema: dict[str, Any], *, request: bool) -> FieldPlan:
        key = text(prop.name)
        own = property_schema(self.document, schema, key)
        shape = self.shapes.of(prop)
        default = own.get("default", own.get("x-default"))
        if isinstance(prop, ConstProperty):
            default = own.get("const", default)
        return FieldPlan(
            name=field_name(key, str(prop.python_name)),
            key=key,
            shape=shape,
            required=prop.required,
            tag=isinstance(prop, ConstProperty),
            null_matters=bool(own.get("x-null-meaningful")),
            default=default,
            secret=bool(
                own.get("x-secret") or own.get("format") == "password" or SECRET.search(key)
            ),
            always=bool(own.get("x-always-send")),
            closed=request and bool(shape.values),
            description=text(prop.description),
        )

    def _named_unions(self) -> Iterator[tuple[str, list[str]]]:
        """Yield (component name, member class names) of the unions of two or more models."""
        for name, schema in self.document["components"]["schemas"].items():
            members = schema.get("oneOf") or schema.get("anyOf") or []
            names = [str(ClassName(ref_name(m), "")) for m in members if "$ref" in m]
            if len(names) == len(members) > 1 and all(member in self._models for member in names):
                yield name, names

    def _unions(self) -> list[UnionPlan]:
        plans = []
        shapes = evolve(self.shapes, unions={})
        for name, members in self._named_unions():
            plans.append(
                UnionPlan(
                    name=str(ClassName(name, "")),
                    module=module_name(name),
                    function=f"parse_{module_name(name)}",
                    description=self.document["components"]["schemas"][name].get("description", ""),
                    shape=shapes.union([self._models[member] for member in members]),
                    rules=frozenset(members) in self.shapes.rules,
                )
            )
        return plans

    @staticmethod
    def literal(value: Any) -> str:
        """Return a Python literal; the only way document text enters code."""
        return repr(value)

    @staticmethod
    def constant(name: str) -> str:
        """Return the name of the tuple of an enumeration's values."""
        return f"{snake_case(name).upper()}_VALUES"

    @staticmethod
    def codec(shape: Shape) -> str:
        """Return the codec of a whole body, which may be null where that is documented."""
        if shape.nullable and shape.codec != "ANYTHING":
            return f"Nullable({shape.codec})"
        return shape.codec

    def exports(self) -> list[tuple[str, list[str]]]:
        """Return the public names of `models` by module."""
        found = [(plan.module, [plan.name]) for plan in self.models.values()]
        found += [(plan.module, [plan.name, plan.function]) for plan in self.unions]
        for enum in self.data.enums:
            name = str(enum.class_info.name)
            found.append((enum.class_info.module_name, [self.constant(name), name]))
        return sorted(found)

    def exported_names(self) -> list[str]:
        """Return the public names of `models`, sorted."""
        return sorted(name for _, names in self.exports() for name in names)

    def lazy_codec(self, shape: Shape) -> str:
        """Return the codec of a whole body in terms of `models`, which loads what is used."""
        union = next((plan for plan in self.unions if f"models.{plan.name}" == shape.type), None)
        if union is not None:
            return f"_union({union.module!r})"
        code = self.codec(shape)
        for _, name in sorted(shape.classes):
            code = re.sub(rf"(?<![\w.]){name}\b", f"models.{name}", code)
        return code

    def table(self) -> TablePlan:
        """Return the plan of the table of operations."""
        endpoints = {
            (endpoint.method, text(endpoint.path)): endpoint
            for collection in self.data.endpoint_collections_by_tag.values()
            for endpoint in collection.endpoints
        }
        calls = [
            (path, operation, self.call(endpoints[method, path]))
            for method, path, operation in operations(self.document)
        ]
        counted = Counter(errors for _, _, call in calls if (errors := shared(call.answers)))
        usual = counted.most_common(1)[0][0] if counted else ()
        rows = tuple(self._row(path, operation, call, usual) for path, operation, call in calls)
        yields = {row.result for row in rows if row.result}
        union = next((plan for plan in self.unions if yields and yields <= members(plan)), None)
        waiting: dict[str, None] = {}
        if union is not None:
            rules = self.shapes.rules.get(frozenset(members(union)), ())
            waiting = dict.fromkeys(name for _, _, name in rules)
        return TablePlan(rows, usual, union, tuple(waiting))

    def _row(
        self,
        path: str,
        operation: dict[str, Any],
        call: CallPlan,
        usual: tuple[AnswerPlan, ...],
    ) -> RowPlan:
        how = operation.get("x-tinker-call")
        if not isinstance(how, dict):
            raise SystemExit(f"{call.name} has no x-tinker-call: run codegen/check_doc.py")
        body = follow(self.document, operation.get("requestBody") or {})
        kinds = sorted(body.get("content", {}), key=lambda kind: not is_json(kind))
        request = None
        if call.body is not None and call.body.type.removeprefix("models.") in self.models:
            request = call.body.type.removeprefix("models.")
        usual_errors = bool(usual) and shared(call.answers) == usual
        answers = call.answers
        if usual_errors:
            answers = tuple(answer for answer in answers if answer not in usual)
        return RowPlan(
            name=str(operation.get("operationId", call.name)),
            path=path,
            call=call,
            lane=str(how["lane"]),
            retry=str(how["retry"]),
            seconds=float(how["seconds"]),
            feature=str(how["feature"]),
            eras=tuple(map(str, operation.get("x-tinker-eras", ()))),
            reply=call.result(success=True),
            request=request,
            media_types=tuple(map(str, kinds)),
            result=str(ClassName(how["yields"], "")) if "yields" in how else None,
            request_type=str(how.get("request-type", "")),
            accept=str(how.get("accept", "")),
            answers=answers,
            usual_errors=usual_errors,
        )

    def call(self, endpoint: Any) -> CallPlan:
        """Return the plan of one generator endpoint."""
        for method, path, operation in operations(self.document):
            if (method, path) == (endpoint.method, text(endpoint.path)):
                return self._call(str(endpoint.tags[0]), endpoint, operation)
        raise LookupError(text(endpoint.path))

    def _call(self, tag: str, endpoint: Any, operation: dict[str, Any]) -> CallPlan:
        body = follow(self.document, operation.get("requestBody") or {})
        media = body.get("content", {})
        json_body = any(is_json(kind) for kind in media)
        binary = [kind for kind in media if not is_json(kind)]
        shapes = {text(b.content_type): self.shapes.of(b.prop) for b in endpoint.bodies}
        json_shape = next((shape for kind, shape in shapes.items() if is_json(kind)), None)
        path = text(endpoint.path)
        shared = self.document["paths"][path].get("parameters", [])
        described = {
            node["name"]: node.get("description", "")
            for node in (
                follow(self.document, p) for p in [*shared, *operation.get("parameters", [])]
            )
        }
        return CallPlan(
            name=str(PythonIdentifier(endpoint.name, "field_")),
            tag=tag,
            method=endpoint.method,
            path=path,
            summary=text(endpoint.summary),
            description=text(endpoint.description),
            path_arguments=self._arguments(endpoint.path_parameters, described),
            query=self._arguments(endpoint.query_parameters, described),
            headers=self._arguments(endpoint.header_parameters, described),
            cookies=self._arguments(endpoint.cookie_parameters, described),
            body=(json_shape or Shape("bytes", "ANYTHING")) if media else None,
            body_required=bool(body.get("required")),
            json_body=json_body,
            binary_type=binary[0] if binary else None,
            answers=self._answers(endpoint, operation),
        )

    def _arguments(self, props: list[Any], described: dict[str, str]) -> tuple[ArgumentPlan, ...]:
        plans = []
        for prop in props:
            name = str(prop.python_name)
            plans.append(
                ArgumentPlan(
                    name=f"{name}_" if name in CALL_ARGUMENTS else name,
                    key=text(prop.name),
                    shape=self.shapes.of(prop),
                    required=prop.required,
                    default=None,
                    description=described.get(text(prop.name), ""),
                )
            )
        return tuple(plans)

    def _answers(self, endpoint: Any, operation: dict[str, Any]) -> tuple[AnswerPlan, ...]:
        shapes = {
            response.status_code.pattern: self.shapes.of(response.prop)
            for response in endpoint.responses
        }
        plans = []
        for status, node in operation.get("responses", {}).items():
            media = follow(self.document, node).get("content", {})
            low, high = status_range(str(status))
            has_json = any(is_json(kind) for kind in media)
            shape = shapes.get(str(status)) if has_json else None
            binary = tuple(kind for kind in media if not is_json(kind))
            plans.append(AnswerPlan(low, high, shape, binary))
        return tuple(sorted(plans, key=lambda plan: (plan.high - plan.low, plan.low)))


def shared(answers: tuple[AnswerPlan, ...]) -> tuple[AnswerPlan, ...]:
    """Return the answers of 400 and more, or nothing where one range spans success and failure."""
    if any(answer.low < 400 <= answer.high for answer in answers):
        return ()
    return tuple(answer for answer in answers if answer.low >= 400)


def members(union: UnionPlan) -> set[str]:
    """Return the class names of a union."""
    return {name for _, name in union.shape.classes}


def decision(sentence: str) -> tuple[str, str | None, str] | None:
    """Read one line of `x-decision-order` as (key, value or None for any, class name).

    Raises:
        ValueError: The line has none of the three known forms.
    """
    found = re.fullmatch(r"(\w+) is (\w+): (\w+)", sentence)
    if found:
        return found[1], found[2], str(ClassName(found[3], ""))
    found = re.fullmatch(r"key (\w+) is present: (\w+)", sentence)
    if found:
        return found[1], None, str(ClassName(found[2], ""))
    if sentence.startswith("otherwise:"):
        return None
    raise ValueError(f"x-decision-order has a line of no known form: {sentence!r}")


def field_name(key: str, safe: str) -> str:
    """Return the attribute for a JSON key: the key itself where Python and our classes allow it.

    The generator also avoids builtins such as `type`, which do no harm as attributes.
    """
    if key in RESERVED or safe in RESERVED:
        return f"{safe}_"
    shadows = safe == f"{key}_" and key in vars(builtins) and key not in ANNOTATIONS
    return key if shadows and not iskeyword(key) and key.isidentifier() else safe


def module_name(name: str) -> str:
    """Return the module that a component name becomes."""
    return str(PythonIdentifier(name, "field_"))


def status_range(status: str) -> tuple[int, int]:
    """Return the first and last status of `404`, `4XX` or `default`."""
    if status == "default":
        return 100, 999
    if status.endswith("XX"):
        return int(status[0]) * 100, int(status[0]) * 100 + 99
    return int(status), int(status)


def is_json(media_type: str) -> bool:
    """Tell whether a media type carries JSON."""
    base = media_type.partition(";")[0].strip().lower()
    return base == "application/json" or base.endswith("+json")


def text(value: Any) -> str:
    """Return the raw text behind a generator string; the caller must print it as a literal."""
    untrusted = getattr(value, "get_untrusted_value", None)
    return (value or "") if untrusted is None else untrusted()


def property_names(document: dict[str, Any], schema: dict[str, Any]) -> Iterator[str]:
    """Yield property names in document order, those of `allOf` parts first."""
    for part in schema.get("allOf", []):
        yield from property_names(document, follow(document, part))
    yield from schema.get("properties", {})


def walk(node: Any) -> Iterator[dict[str, Any]]:
    """Yield every mapping inside a document."""
    if isinstance(node, dict):
        yield node
        for value in node.values():
            yield from walk(value)
    elif isinstance(node, list):
        for value in node:
            yield from walk(value)
