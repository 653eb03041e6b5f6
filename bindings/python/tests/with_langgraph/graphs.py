# pyright: standard
"""Graphs of an agent with a scripted model, for the tests."""

import operator
from collections.abc import Sequence
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Send, interrupt

ANSWERS = ["I look at the leads.", "There are three leads.", "You are welcome."]


class State(TypedDict, total=False):
    """The conversation, and what the nodes counted."""

    messages: Annotated[list[AnyMessage], add_messages]
    steps: Annotated[int, operator.add]
    tags: set[str]


class Agent:
    """Answers from a script, calls a tool after the first answer, and counts what it did."""

    def __init__(self, checkpointer: BaseCheckpointSaver[Any]) -> None:
        self.asked = 0
        self.tool_runs = 0
        builder: Any = StateGraph(State)
        builder.add_node("model", self.model)
        builder.add_node("tool", self.tool)
        builder.add_edge(START, "model")
        builder.add_conditional_edges("model", self.after_model, ["tool", END])
        builder.add_edge("tool", "model")
        self.graph = builder.compile(checkpointer=checkpointer)

    def model(self, state: State) -> State:
        """The next answer of the script."""
        answered = sum(isinstance(message, AIMessage) for message in state.get("messages", []))
        self.asked += 1
        calls = [{"name": "leads", "args": {"of": "Ada"}, "id": "call-1"}] if answered == 0 else []
        answer = AIMessage(ANSWERS[answered % 3], tool_calls=calls)
        return {"messages": [answer], "steps": 1, "tags": {"beta", "alpha", "gamma"}}

    def after_model(self, state: State) -> str:
        """To the tool if it was called."""
        last = state.get("messages", [])[-1]
        return "tool" if isinstance(last, AIMessage) and last.tool_calls else END

    def tool(self, state: State) -> State:
        """The tool."""
        self.tool_runs += 1
        return {"messages": [ToolMessage("three: Bob, Cid, Dan", tool_call_id="call-1")], "steps": 1}

    def ask(self, text: str, config: RunnableConfig) -> list[str]:
        """Runs one turn; the texts of all messages."""
        result = self.graph.invoke({"messages": [HumanMessage(text)]}, config)
        return [str(message.content) for message in result["messages"]]

    async def aask(self, text: str, config: RunnableConfig) -> list[str]:
        """The same as a coroutine."""
        result = await self.graph.ainvoke({"messages": [HumanMessage(text)]}, config)
        return [str(message.content) for message in result["messages"]]


def thread(name: str = "1") -> RunnableConfig:
    """The configuration of a thread."""
    return {"configurable": {"thread_id": name}}


class Approval(TypedDict, total=False):
    """Work that a person approves."""

    plan: str
    done: Annotated[list[str], operator.add]


def approving(checkpointer: BaseCheckpointSaver[Any] | bool) -> Any:
    """A graph that fans out, asks a person, and then acts."""

    def plan(_: Approval) -> Approval:
        return {"plan": "delete the leads"}

    def fan(_: Approval) -> list[Send]:
        return [Send("worker", {"plan": name}) for name in ("c", "a", "b")]

    def worker(state: Approval) -> Approval:
        return {"done": [state.get("plan", "")]}

    def act(state: Approval) -> Approval:
        answer = interrupt({"approve": state.get("plan")})
        return {"done": [f"{answer}: {state.get('plan')}"]}

    builder: Any = StateGraph(Approval)
    builder.add_node("plan", plan)
    builder.add_node("worker", worker)
    builder.add_node("act", act)
    builder.add_edge(START, "plan")
    builder.add_conditional_edges("plan", fan, ["worker"])
    builder.add_edge("worker", "act")
    builder.add_edge("act", END)
    return builder.compile(checkpointer=checkpointer)


def appended(state: list[str] | None, writes: Sequence[Any]) -> list[str]:
    """The reducer of a delta channel."""
    return [*(state or []), *(item for write in writes for item in write)]


class Deltas(TypedDict, total=False):
    """A history of which a checkpoint has only what was added."""

    log: Annotated[list[str], DeltaChannel(appended, snapshot_frequency=4)]


def with_deltas(checkpointer: BaseCheckpointSaver[Any]) -> Any:
    """A graph of one node that adds to a delta channel."""

    def note(state: Deltas) -> Deltas:
        return {"log": [f"note {len(state.get('log', []))}"]}

    builder: Any = StateGraph(Deltas)
    builder.add_node("note", note)
    builder.add_edge(START, "note")
    builder.add_edge("note", END)
    return builder.compile(checkpointer=checkpointer)
