# pyright: basic, reportMissingImports=false
"""An agent of AutoGen whose model, tools and runs are recorded and sealed, through OpenInference.

    python autogen_agent.py FOLDER

The model is scripted and on loopback. FOLDER gets keys and the record.
"""

import asyncio
import sys
from pathlib import Path

from autogen_agentchat.agents import AssistantAgent
from autogen_core.models import ModelInfo
from autogen_ext.models.openai import OpenAIChatCompletionClient
from openinference.instrumentation.autogen_agentchat import AutogenAgentChatInstrumentor
from scripted_model import QUESTION, scripted_model
from sealed_traces import sealed_traces


async def leads(of: str) -> str:
    """Counts leads."""
    return f"three leads of {of}"


async def ask(address: str) -> str:
    """The answer of the agent."""
    abilities = ModelInfo(
        vision=False, function_calling=True, json_output=False, structured_output=False, family="unknown"
    )
    client = OpenAIChatCompletionClient(model="scripted", base_url=address, api_key="none", model_info=abilities)
    agent = AssistantAgent("scout", model_client=client, tools=[leads], reflect_on_tool_use=True)
    done = await agent.run(task=QUESTION)
    await client.close()
    return str(done.messages[-1].to_text())


def main(folder: Path) -> None:
    """Runs the agent once, and prints the events of its record."""
    with sealed_traces(folder) as provider, scripted_model() as address:
        AutogenAgentChatInstrumentor().instrument(tracer_provider=provider)
        print(asyncio.run(ask(address)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
